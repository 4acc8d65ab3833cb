// TeX's names of symbols, operators, functions, delimiters and accents, and the letters of its alphabets.

// "name character name character ..."
function table(text) {
  const words = text.trim().split(/\s+/);
  return new Map(Array.from({ length: words.length / 2 }, (_, i) => [words[2 * i], words[2 * i + 1]]));
}

export const LETTERS = table(`
  alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ varkappa ϰ lambda λ
  mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω
  partial ∂ ell ℓ imath ı jmath ȷ wp ℘`);
// Upright.
export const SIGNS = table(`
  Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
  infty ∞ nabla ∇ hbar ℏ hslash ℏ Re ℜ Im ℑ aleph ℵ beth ℶ emptyset ∅ varnothing ∅ top ⊤ bot ⊥ angle ∠ triangle △ square □ Box □
  blacksquare ■ diamondsuit ♢ heartsuit ♡ clubsuit ♣ spadesuit ♠ sharp ♯ flat ♭ natural ♮ prime ′ degree ° dagger † ddagger ‡
  S § P ¶ copyright © pounds £ checkmark ✓ ldots … dots … dotsc … cdots ⋯ dotsb ⋯ dotsm ⋯ vdots ⋮ ddots ⋱ % % $ $ # # & & _ _`);
export const OPERATORS = table(`
  pm ± mp ∓ times × div ÷ cdot ⋅ cdotp · ast ∗ star ⋆ circ ∘ bullet • oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ wedge ∧ land ∧
  vee ∨ lor ∨ cap ∩ cup ∪ uplus ⊎ sqcap ⊓ sqcup ⊔ setminus ∖ smallsetminus ∖ wr ≀ diamond ⋄ amalg ⨿ ltimes ⋉ rtimes ⋊
  leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ equiv ≡ sim ∼ simeq ≃ approx ≈ cong ≅ propto ∝ ll ≪ gg ≫ prec ≺ succ ≻ preceq ⪯ succeq ⪰
  leqslant ⩽ geqslant ⩾ lesssim ≲ gtrsim ≳ doteq ≐ triangleq ≜ coloneqq ≔ asymp ≍ models ⊨ vdash ⊢ dashv ⊣ Vdash ⊩ vDash ⊨
  in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ sqsubseteq ⊑ sqsupseteq ⊒ nsubseteq ⊈
  mid ∣ nmid ∤ parallel ∥ nparallel ∦ perp ⟂ bowtie ⋈ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ therefore ∴ because ∵ colon :
  to → rightarrow → gets ← leftarrow ← leftrightarrow ↔ Rightarrow ⇒ implies ⟹ Leftarrow ⇐ impliedby ⟸ Leftrightarrow ⇔ iff ⟺
  longrightarrow ⟶ longleftarrow ⟵ longleftrightarrow ⟷ Longrightarrow ⟹ Longleftarrow ⟸ Longleftrightarrow ⟺ mapsto ↦
  longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓ nearrow ↗ searrow ↘
  swarrow ↙ nwarrow ↖ rightharpoonup ⇀ rightharpoondown ⇁ leftharpoonup ↼ leftharpoondown ↽ rightleftharpoons ⇌ leadsto ⇝
  rightrightarrows ⇉ nrightarrow ↛ nleftarrow ↚`);
// Operators with limits above and below in a display.
export const BIG = table(`
  sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ bigvee ⋁ bigwedge ⋀ biguplus ⨄ bigsqcup ⨆`);
export const INTEGRALS = table("int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯");
export const FUNCTIONS = new Set(`arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan
  tanh`.split(/\s+/));
export const LIMIT_FUNCTIONS = new Map([..."det gcd inf lim max min Pr sup".split(" ").map((name) => [name, name]),
  ["liminf", "lim inf"], ["limsup", "lim sup"], ["argmax", "arg max"], ["argmin", "arg min"], ["injlim", "inj lim"], ["projlim", "proj lim"]]);
export const DELIMITERS = new Map([...["(", ")", "[", "]", "|", "/"].map((mark) => [mark, mark]), ["<", "⟨"], [">", "⟩"], [".", ""],
  ...[...table(`{ { } } lbrace { rbrace } lbrack [ rbrack ] | ‖ vert | Vert ‖ lvert | rvert | lVert ‖ rVert ‖ langle ⟨ rangle ⟩
    lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lgroup ⟮ rgroup ⟯ ulcorner ⌜ urcorner ⌝ backslash \\ uparrow ↑ downarrow ↓ updownarrow ↕`)]
    .map(([name, mark]) => [`\\${name}`, mark])]);
export const ACCENTS = table(`
  hat ^ widehat ^ bar ¯ vec → dot ˙ ddot ¨ dddot ⃛ tilde ~ widetilde ~ check ˇ breve ˘ acute ´ grave \` mathring ˚ overline ‾
  overbrace ⏞ overrightarrow → overleftarrow ← overleftrightarrow ↔`);
export const ACCENTS_BELOW = table("underline _ underbrace ⏟ underrightarrow → underleftarrow ←");
export const WIDE = new Set("widehat widetilde overline overbrace overrightarrow overleftarrow overleftrightarrow underline underbrace underrightarrow underleftarrow".split(" "));
// Widths in em.
export const SPACES = new Map([[",", 0.1667], [":", 0.2222], [">", 0.2222], [";", 0.2778], ["!", -0.1667], [" ", 0.3333], ["~", 0.3333], ["quad", 1],
  ["qquad", 2], ["enspace", 0.5], ["thinspace", 0.1667], ["medspace", 0.2222], ["thickspace", 0.2778], ["negthinspace", -0.1667]]);
export const SIZES = new Map(["big", "Big", "bigg", "Bigg"].flatMap((name, i) =>
  ["", "l", "r", "m"].map((side) => [name + side, ["1.2em", "1.623em", "2.047em", "2.47em"][i]])));

// Where an alphabet begins in Unicode's mathematical letters: capitals, small letters, digits, Greek small letters.
const ALPHABETS = {
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce, 0x1d6c2], boldsymbol: [0x1d468, 0x1d482, 0x1d7ce, 0x1d736], mathcal: [0x1d49c, 0x1d4b6],
  mathfrak: [0x1d504, 0x1d51e], mathbb: [0x1d538, 0x1d552, 0x1d7d8], mathsf: [0x1d5a0, 0x1d5ba, 0x1d7e2], mathtt: [0x1d670, 0x1d68a, 0x1d7f6],
};
const SAME = { bm: "boldsymbol", mathscr: "mathcal", bold: "mathbf", pmb: "boldsymbol", textbf: "mathbf", textsf: "mathsf", texttt: "mathtt" };
// Letters that Unicode had before.
const OLDER = {
  mathcal: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" },
  mathfrak: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" },
  mathbb: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" },
};
export const isAlphabet = (name) => Object.hasOwn(ALPHABETS, name) || Object.hasOwn(SAME, name);

// The letter or digit in this alphabet; unchanged if the alphabet lacks it.
export function inAlphabet(name, letter) {
  const alphabet = SAME[name] ?? name;
  const older = OLDER[alphabet]?.[letter];
  if (older) return older;
  const [capitals, small, digits, greek] = ALPHABETS[alphabet];
  const at = (begin, first) => String.fromCodePoint(begin + letter.codePointAt(0) - first.codePointAt(0));
  if (letter >= "A" && letter <= "Z") return at(capitals, "A");
  if (letter >= "a" && letter <= "z") return at(small, "a");
  if (digits && letter >= "0" && letter <= "9") return at(digits, "0");
  if (greek && letter >= "α" && letter <= "ω") return at(greek, "α");
  return letter;
}
