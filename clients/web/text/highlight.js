// Syntax colours for code: comments, strings, numbers and keywords, found in one pass. Not a parser; unrecognised text
// stays plain.
import { el } from "../dom.js";

const LONGEST = 60_000; // characters; longer code stays plain

const WORDS = {
  c: "alignas auto bool break case catch char class co_await co_return const constexpr continue default delete do double else enum explicit export extern false float for friend goto if include inline int long mutable namespace new noexcept nullptr operator override private protected public requires return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while define ifdef ifndef endif",
  js: "async await break case catch class const continue default delete do else export extends false finally for from function get if implements import in instanceof interface let new null of private public readonly return set static super switch this throw true try type typeof undefined var void while yield enum as",
  python: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield case",
  rust: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
  go: "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var string int error bool",
  java: "abstract assert boolean break byte case catch char class const continue default do double else enum extends false final finally float for if implements import instanceof int interface internal let long namespace new null object override package private protected public record return sealed short static string super switch this throw throws true try typeof using val var void volatile when while fun data",
  shell: "case do done elif else esac export fi for function if in local return set then until while echo cd exit sudo source",
  sql: "add all alter and as asc between by case column constraint create default delete desc distinct drop else end exists foreign from full group having in index inner insert into is join key left like limit not null on or order outer primary references right select set table then union unique update values view when where with",
  ruby: "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo require rescue return self super then true undef unless until when while yield puts attr_accessor",
};
const FAMILIES = {
  c: ["c", "cpp", "c++", "cc", "h", "hpp", "cuda", "objective-c"],
  js: ["js", "javascript", "jsx", "ts", "typescript", "tsx", "mjs", "node", "json", "jsonc"],
  python: ["python", "py", "python3"],
  rust: ["rust", "rs"],
  go: ["go", "golang"],
  java: ["java", "kotlin", "kt", "cs", "csharp", "c#", "scala", "swift", "dart"],
  shell: ["sh", "bash", "zsh", "shell", "console", "dockerfile", "makefile", "cmake", "yaml", "yml", "toml", "ini"],
  sql: ["sql", "postgresql", "mysql", "sqlite"],
  ruby: ["ruby", "rb", "elixir", "lua"],
};
const FAMILY = new Map(Object.entries(FAMILIES).flatMap(([family, names]) => names.map((name) => [name, family])));
const HASH_COMMENTS = new Set(["python", "shell", "ruby"]);

// Groups: comment, string, number, word, function.
function pattern(family) {
  const line = family === "sql" ? "--[^\\n]*" : HASH_COMMENTS.has(family) ? "(?<=^|\\s)#[^\\n]*" : "//[^\\n]*";
  const block = HASH_COMMENTS.has(family) ? "" : "|/\\*[^]*?(?:\\*/|$)";
  const triple = family === "python" ? `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|` : "";
  const template = family === "js" || family === "go" ? "|`(?:[^`\\\\]|\\\\[^])*(?:`|$)" : "";
  // In Rust a single quote starts a character literal or a lifetime.
  const single = family === "rust" ? "'(?:[^'\\\\\\n]|\\\\.)'" : "'(?:[^'\\\\\\n]|\\\\.)*(?:'|$)";
  const strings = `${triple}"(?:[^"\\\\\\n]|\\\\.)*(?:"|$)|${single}${template}`;
  return new RegExp(`(${line}${block})|(${strings})|(\\b\\d[\\w.]*)|([A-Za-z_$][\\w$]*)(?=(\\s*\\()?)`, "gm");
}

const READY = new Map(); // family -> {pattern, words}
function rules(family) {
  if (!READY.has(family)) READY.set(family, { pattern: pattern(family), words: new Set(WORDS[family].split(" ")) });
  return READY.get(family);
}

const MARKUP = /(<!--[^]*?(?:-->|$))|("[^"\n]*"|'[^'\n]*')|(\b\d[\w.]*)|(<\/?[A-Za-z][\w:-]*|\/?>)/g;

export function highlight(code, text, language) {
  const markup = language === "html" || language === "xml" || language === "svg" || language === "vue";
  const family = FAMILY.get(language);
  if ((!family && !markup) || text.length > LONGEST) {
    code.append(text);
    return;
  }
  const { pattern: tokens, words } = markup ? { pattern: MARKUP, words: null } : rules(family);
  let at = 0;
  for (const match of text.matchAll(tokens)) {
    const name = match[4];
    const known = name && (!words || words.has(family === "sql" ? name.toLowerCase() : name));
    const kind = match[1] ? "comment" : match[2] ? "string" : match[3] ? "number" : known ? "word" : match[5] ? "call" : null;
    if (!kind) continue;
    code.append(text.slice(at, match.index), el("span", { class: `t-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  code.append(text.slice(at));
}
