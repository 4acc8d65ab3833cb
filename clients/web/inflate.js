// Decompresses in the browser: the chunks of the result. Throws at damage, after the chunks before it. `format`: as
// DecompressionStream's.
export async function* inflate(bytes, format) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format)).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
