// Characters of simple fonts: the standard encodings (ISO 32000-1, annex D) and the names of glyphs.
const NAMES = "space exclam quotedbl numbersign dollar percent ampersand quotesingle parenleft parenright asterisk plus comma hyphen period slash zero one two three four five six seven eight nine colon semicolon less equal greater question at";
const MARKS = "bracketleft backslash bracketright asciicircum underscore grave";
const LATIN = "exclamdown cent sterling currency yen brokenbar section dieresis copyright ordfeminine guillemotleft logicalnot . registered macron degree plusminus twosuperior threesuperior acute mu paragraph periodcentered cedilla onesuperior ordmasculine guillemotright onequarter onehalf threequarters questiondown Agrave Aacute Acircumflex Atilde Adieresis Aring AE Ccedilla Egrave Eacute Ecircumflex Edieresis Igrave Iacute Icircumflex Idieresis Eth Ntilde Ograve Oacute Ocircumflex Otilde Odieresis multiply Oslash Ugrave Uacute Ucircumflex Udieresis Yacute Thorn germandbls agrave aacute acircumflex atilde adieresis aring ae ccedilla egrave eacute ecircumflex edieresis igrave iacute icircumflex idieresis eth ntilde ograve oacute ocircumflex otilde odieresis divide oslash ugrave uacute ucircumflex udieresis yacute thorn ydieresis";
const OTHERS = "quoteleft ‘ quoteright ’ quotedblleft “ quotedblright ” quotesinglbase ‚ quotedblbase „ guilsinglleft ‹ guilsinglright › bullet • dagger † daggerdbl ‡ ellipsis … emdash — endash – perthousand ‰ fraction ⁄ florin ƒ trademark ™ Euro € minus − fi fi fl fl ff ff ffi ffi ffl ffl dotlessi ı OE Œ oe œ Scaron Š scaron š Zcaron Ž zcaron ž Lslash Ł lslash ł Ydieresis Ÿ circumflex ˆ tilde ˜ breve ˘ dotaccent ˙ ring ˚ ogonek ˛ hungarumlaut ˝ caron ˇ nbspace   alpha α beta β gamma γ delta δ epsilon ε theta θ lambda λ pi π rho ρ sigma σ tau τ phi φ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Sigma Σ Phi Φ Omega Ω infinity ∞ lessequal ≤ greaterequal ≥ notequal ≠ approxequal ≈ summation ∑ product ∏ integral ∫ radical √ partialdiff ∂ arrowright → arrowleft ←";
const WINDOWS = "€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ"; // 0x80 on
const MAC = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»… ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›fifl‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\0ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"; // 0x80 on
const STANDARD = { 0x27: "’", 0x60: "‘", 0xa1: "¡", 0xa2: "¢", 0xa3: "£", 0xa4: "⁄", 0xa5: "¥", 0xa6: "ƒ", 0xa7: "§", 0xa8: "¤", 0xa9: "'", 0xaa: "“", 0xab: "«", 0xac: "‹", 0xad: "›", 0xae: "fi", 0xaf: "fl", 0xb1: "–", 0xb2: "†", 0xb3: "‡", 0xb4: "·", 0xb6: "¶", 0xb7: "•", 0xb8: "‚", 0xb9: "„", 0xba: "”", 0xbb: "»", 0xbc: "…", 0xbd: "‰", 0xbf: "¿", 0xd0: "—", 0xe1: "Æ", 0xe3: "ª", 0xe8: "Ł", 0xe9: "Ø", 0xea: "Œ", 0xeb: "º", 0xf1: "æ", 0xf5: "ı", 0xf8: "ł", 0xf9: "ø", 0xfa: "œ", 0xfb: "ß" };

const glyphs = new Map();
for (const [first, list] of [[0x20, NAMES], [0x5b, MARKS], [0xa1, LATIN]]) {
  for (const [i, name] of list.split(" ").entries()) glyphs.set(name, String.fromCharCode(first + i));
}
const others = OTHERS.split(" ");
for (let i = 0; i + 1 < others.length; i += 2) glyphs.set(others[i], others[i + 1]);
for (const [name, text] of [["braceleft", "{"], ["bar", "|"], ["braceright", "}"], ["asciitilde", "~"], ["nbspace", " "]]) glyphs.set(name, text);

// The text of a glyph's name; "" if it is unknown, such as a name of a font's own.
export function glyphText(name) {
  const base = name.split(".")[0];
  if (glyphs.has(base)) return glyphs.get(base);
  if (/^[A-Za-z]$/.test(base)) return base;
  const code = /^(?:uni([0-9A-F]{4})|u([0-9A-F]{4,6}))/.exec(base);
  const number = code ? parseInt(code[1] ?? code[2], 16) : 0;
  return number > 0 && number <= 0x10ffff ? String.fromCodePoint(number) : "";
}

// The text of a code in an encoding by its name; of StandardEncoding without one.
export function encodedText(encoding, code) {
  if (encoding === "MacRomanEncoding") return code < 0x80 ? plain(code) : clean([...MAC][code - 0x80]);
  if (encoding === "WinAnsiEncoding") return code < 0x80 || code > 0x9f ? plain(code) : clean(WINDOWS[code - 0x80]);
  return STANDARD[code] ?? (code < 0x7f ? plain(code) : "");
}
const plain = (code) => code < 0x20 || code === 0x7f ? "" : String.fromCharCode(code);
const clean = (text) => !text || text === "\0" ? "" : text;
