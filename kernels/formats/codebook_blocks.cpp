#include "kernels/formats/codebook_blocks.h"

#include <array>
#include <bit>
#include <cstring>

namespace ringside {
namespace {

// A codebook is a subset of the points of a grid with 3 or 8 values per axis, in ascending order of their numbers,
// whose lowest digit is the first axis. Bit n is set if point n belongs to it.
constexpr uint64_t kIq2XxsPoints[] = {0x4141441055141555,
                                      0x100044140400,
                                      0x40001400400400,
                                      0x1050000004000000,
                                      0x4004140100114140,
                                      0x500001000400450,
                                      0x1000050000010,
                                      0x4004144100004000,
                                      0x400000400001414,
                                      0x40000,
                                      0x100400,
                                      0x10100414000000,
                                      0x1001040011040040,
                                      0x100404000,
                                      0x4010000,
                                      0x400440041000,
                                      0x100000000004,
                                      0x1000400000001000,
                                      0x0,
                                      0x40000004000105,
                                      0x110000,
                                      0x1000000,
                                      0x414000000000040,
                                      0x50100010000,
                                      0x1010000000,
                                      0x500000,
                                      0x414000000000,
                                      0x40000000004001,
                                      0x4000040000,
                                      0x0,
                                      0x40040000040,
                                      0x4000000,
                                      0x0,
                                      0x1000000,
                                      0x110104144105000,
                                      0x400010000414,
                                      0x40400000440400,
                                      0x4000000100404000,
                                      0x10000000010010,
                                      0x1004000010,
                                      0x100000000,
                                      0x414000000000000,
                                      0x11000,
                                      0x401100000000004,
                                      0x4000000000000,
                                      0x50441000040000,
                                      0x100000104000000,
                                      0x40000,
                                      0x1,
                                      0x40,
                                      0x1000001400000,
                                      0x400000000000000,
                                      0x100000000,
                                      0x400000004100400,
                                      0x40000000000000,
                                      0x4000000000000,
                                      0x0,
                                      0x1000001000041,
                                      0x40000000004000,
                                      0x400000000000,
                                      0x11000000001000,
                                      0x0,
                                      0x400000000001400,
                                      0x0,
                                      0x0,
                                      0x1,
                                      0x0,
                                      0x0,
                                      0x4000041400000,
                                      0x40040000004000,
                                      0x4,
                                      0x4,
                                      0x40001000441400,
                                      0x400000004000000,
                                      0x4000010000000,
                                      0x4000000001000040,
                                      0x0,
                                      0x10000,
                                      0x10000000000,
                                      0x104000000000000,
                                      0x100000000000410,
                                      0x40000000004000,
                                      0x1000000000000,
                                      0x40000400000000,
                                      0x1,
                                      0x1000000,
                                      0x0,
                                      0x0,
                                      0x100000000001000,
                                      0x0,
                                      0x0,
                                      0x100000000400,
                                      0x100000004,
                                      0x40000000000,
                                      0x0,
                                      0x400,
                                      0x0,
                                      0x0,
                                      0x0,
                                      0x40000,
                                      0x4,
                                      0x0,
                                      0x0};
constexpr uint64_t kIq2XsPoints[] = {0x1541455551555555,
                                     0x4145505555540145,
                                     0x4010515400010510,
                                     0x5550000101000441,
                                     0x4140115154145,
                                     0x404010500414550,
                                     0x5100041400000,
                                     0x1105554000004000,
                                     0x540400010010414,
                                     0x10400000040001,
                                     0x104000100,
                                     0x4550515554011000,
                                     0x1051540001054041,
                                     0x5000500100004140,
                                     0x10000400011,
                                     0x1001450041455000,
                                     0x100004140000004,
                                     0x400400000000000,
                                     0x10000,
                                     0x400004004000505,
                                     0x110000,
                                     0x4,
                                     0x5555000000000040,
                                     0x400010000414010,
                                     0x10001040001050,
                                     0x10000100000,
                                     0x4000414400000400,
                                     0x40000000000001,
                                     0x1000000010040000,
                                     0x1000100,
                                     0x40141100000,
                                     0x400100001,
                                     0x10010000000,
                                     0x144000000001001,
                                     0x1105554145555000,
                                     0x500414550000414,
                                     0x141404000440001,
                                     0x4000000000000140,
                                     0x10000414014515,
                                     0x41001050001,
                                     0x4000010100400000,
                                     0x414000000000010,
                                     0x101011000,
                                     0x40004100001004,
                                     0x400000,
                                     0x1041455000000000,
                                     0x4140000004000105,
                                     0x50004,
                                     0x1000000040,
                                     0x4040105400000,
                                     0x410100004010,
                                     0x1040000000,
                                     0x100000001000,
                                     0x404000400404,
                                     0x140100000010000,
                                     0x0,
                                     0x4000004000000000,
                                     0x100101001000041,
                                     0x5000,
                                     0x10000000000000,
                                     0x4001000100000004,
                                     0x0,
                                     0x110000400,
                                     0x1000,
                                     0x1000000000,
                                     0x1000000,
                                     0x400,
                                     0x10100000000400,
                                     0x415010515400000,
                                     0x1155000005000,
                                     0x100000000041004,
                                     0x1400000000400,
                                     0x40001000541441,
                                     0x100000004000040,
                                     0x400004000000000,
                                     0x1000000100000000,
                                     0x14010000040004,
                                     0x40400,
                                     0x4000000000000,
                                     0x105100404100000,
                                     0x10001000400,
                                     0x1000000100001,
                                     0x400000000000000,
                                     0x4400004000,
                                     0x1041,
                                     0x14000000001000,
                                     0x100000000,
                                     0x400000000000000,
                                     0x400000000,
                                     0x100,
                                     0x1000000010,
                                     0x404014500,
                                     0x4000000000010000,
                                     0x1144000000010,
                                     0x4000100000010,
                                     0x4000000000400000,
                                     0x0,
                                     0x0,
                                     0x40000400004000,
                                     0x1040000000000045,
                                     0x500000000000004,
                                     0x50000000000,
                                     0x100010000};
constexpr uint64_t kIq2SPoints[] = {0x1555455551555555,
                                    0x5545505155551105,
                                    0x5010515414150514,
                                    0x5550101111000455,
                                    0x5145541555555545,
                                    0x5414555514555550,
                                    0x1451000455401051,
                                    0x1155154000105004,
                                    0x540010110515555,
                                    0x40401051440455,
                                    0x100510140100,
                                    0x4551515554004000,
                                    0x5555541451151555,
                                    0x5000145505155545,
                                    0x414000504414114,
                                    0x1455551455455000,
                                    0x5505155540105154,
                                    0x514400010500414,
                                    0x4000001000041401,
                                    0x140105154045155,
                                    0x10500414550000,
                                    0x1000041004000010,
                                    0x5154000000000400,
                                    0x11010405415115,
                                    0x1401050540415054,
                                    0x104510010100004,
                                    0x514554400050000,
                                    0x1440001050041455,
                                    0x110004140105,
                                    0x4000400010500,
                                    0x1050001411000000,
                                    0x4150000400000,
                                    0x100000000000,
                                    0x140040000004004,
                                    0x1555554555555000,
                                    0x5505554550514414,
                                    0x1541401051541455,
                                    0x4000005004145104,
                                    0x4550515554555555,
                                    0x1051541455550041,
                                    0x5004145500004150,
                                    0x5514100000400010,
                                    0x1040041455051,
                                    0x100004140105154,
                                    0x400010500040,
                                    0x1555455000000000,
                                    0x5540005154145555,
                                    0x10500414550515,
                                    0x1400041401051440,
                                    0x5154145555000000,
                                    0x414550000414010,
                                    0x1400000040001050,
                                    0x110004,
                                    0x40414010515400,
                                    0x40001050000001,
                                    0x1000100000000000,
                                    0x4400004000000000,
                                    0x1040041451051545,
                                    0x4140105154000,
                                    0x400010400100010,
                                    0x1451010000000100,
                                    0x4000105004,
                                    0x10001010000414,
                                    0x40004,
                                    0x105000100000,
                                    0x10010000100000,
                                    0x4000,
                                    0x400000000,
                                    0x5414114515404000,
                                    0x1455450001411011,
                                    0x1140004140005154,
                                    0x10500015,
                                    0x41455011555400,
                                    0x4140105154000105,
                                    0x10500001010000,
                                    0x1000000000000050,
                                    0x105000141,
                                    0x4000010000014040,
                                    0x4000000000000,
                                    0x5545010000400500,
                                    0x414010515410,
                                    0x101050001411,
                                    0x100004140000,
                                    0x4010515440000000,
                                    0x1050004001000041,
                                    0x1100000000004000,
                                    0x10001000000010,
                                    0x1100041400000,
                                    0x5000000000,
                                    0x1100,
                                    0x40000000000000,
                                    0x105410111100,
                                    0x10000001040000,
                                    0x4004100000000400,
                                    0x5100014400000014,
                                    0x100000000400010,
                                    0x10001040,
                                    0x0,
                                    0x40000000000004,
                                    0x100000000000040,
                                    0x400004000000000,
                                    0x11401400000,
                                    0x100001000};
constexpr uint64_t kIq1Points[] = {
    0x514202a085142555, 0xa28a2086a8314508, 0x14508514202a081a, 0xa005152545442082, 0x8208001888208202,
    0xaaabb88a02a03a0,  0xaa0a0022000baa90, 0x4508514008a0828c, 0x851421450808821,  0x2a8008a09808308a,
    0x4248208514214508, 0x20a0c22c01450855, 0xa2aaa8242a00268a, 0x28280808afe208,   0xa82028aa284202a0,
    0xa8bab9089b0a2080, 0x3aaaaea289aeca20, 0xb80e82bbbaeaeb7c, 0x2202920ed3caba22, 0x820aba8aa8202200,
    0x3ba2e04a2a000802, 0x81408100a22b2022, 0x8514012208288aaa, 0x5421450920821550, 0x203aa8230208a085,
    0xa208514254208284, 0x82a021450950820,  0x200248a08082a8b8, 0xab2802a268a28208, 0x83082082085082a,
    0xa085142145004045, 0x8229014500514200, 0x1430a1082a828a00, 0x2145082882145005, 0x2aaa200202208514,
    0xa828ae8ab1122000, 0xa820070a8aaa1ba,  0x8200840222280208, 0xaa2ab0eaa0804800, 0xa7daea22ba8b20c2,
    0xaa2ab092a86e8b8b, 0x48202a0c448a8b72, 0x20aa082a8a284084, 0xa09aafa222a2ccc8, 0xa82a00020002a8e8,
    0xa2a28ba080200088, 0xba0a328280a0ba28, 0x2ba0a2ebfebab8be, 0xa2ea280a8a08a2,   0xdeeaa4fa0c0232a1,
    0xeb7ebe8d2ea82bef, 0xdeba7de6bf7ff7fa, 0x12fa26bfff27fb69, 0xebeaa10228ae1e9,  0xae820ba8b208aa84,
    0x62048083e924baff, 0x2ba40aa8f2682c,   0x12aae208082a02,   0x82c920a60a2a8202, 0x8c00a20028829089,
    0x6c00080882001380, 0x8abea602bbaaaa8a, 0xd02e976b8002caa0, 0xdeaa2e108210e9b2, 0x820a0004a5d11528,
    0x20a1010820828a00, 0xa0843222ba39aa82, 0x262a28a00188009,  0xac21450051441481, 0x20aa085142145082,
    0x45082a120a87aa28, 0x8514208a0051421,  0x22a240a002200145, 0x8a6a08a208008800, 0xa200080aaaab86e,
    0x5044082122c8e282, 0x8515208a09514214, 0x2a2aaa080a861450, 0x21450851420a0080, 0xe2085142145000a8,
    0x82a82180a828820,  0xa028bb08aaaa2aa,  0xaaa80822820aa2a,  0x220288a900280828, 0xba8a08b8280bbea0,
    0xaef8a4baffaeb24b, 0x30a0b668285220aa, 0x6a220828020a80e6, 0x2baaaa020a208062, 0x808a2a0a9a2eaaa,
    0xe8200228aa02010,  0x400aa08514214500, 0x4a0006a921450851, 0x440d1000a50802aa, 0x514214508288214,
    0x20f2ac82820800,   0x20ba0a280aaa0000, 0x280948820002a2ea, 0x51454b110014e9,   0x5142145002a80145,
    0x400a288808248808, 0x2a0051401450008,  0x145085140};
constexpr uint64_t kIq3XxsPoints[] = {0x2800000402058a15,
                                      0x10010020522050a,
                                      0x200082008a050215,
                                      0x100000000200582,
                                      0x2800801080000800,
                                      0x40004000082,
                                      0x10000020000000,
                                      0x2000800005100,
                                      0x180150a050a,
                                      0x50205,
                                      0x40000000102050a,
                                      0x40004002010005,
                                      0x10000000022,
                                      0x200004000110000,
                                      0x20,
                                      0x100040000,
                                      0x402450a05,
                                      0x18800000102052a,
                                      0x200180058205,
                                      0x1100000000001102,
                                      0x80020000000,
                                      0x1000000200800008,
                                      0x0,
                                      0x200000400a,
                                      0x4200100000a0502,
                                      0x5002010005,
                                      0x40004000020010a,
                                      0x8000200,
                                      0x400008001000000,
                                      0x200000040041,
                                      0x8000040001000,
                                      0x1000008000000,
                                      0x8800a0008010,
                                      0x1000000000000000,
                                      0x41000180010000,
                                      0x2000000080,
                                      0x10020000000010,
                                      0x100000800200000,
                                      0x0,
                                      0x1000520,
                                      0x100000200000400,
                                      0x200000400041,
                                      0x400000004001000,
                                      0x80000000004,
                                      0x400000000880100,
                                      0x2000004,
                                      0x10000000000,
                                      0x400100000,
                                      0x10005000100000,
                                      0x2000000020000,
                                      0x10000000008000,
                                      0x41000000,
                                      0x1000000000,
                                      0x40000000020,
                                      0x8000000,
                                      0x20008,
                                      0x400040001a8,
                                      0x100400000,
                                      0x42000000400,
                                      0x1000008002001,
                                      0x200020000,
                                      0x100005,
                                      0x1000000,
                                      0x0};
constexpr uint64_t kIq3SPoints[] = {0x92050aa5082357a7, 0x422001022892317,  0x9000aa4112249a3,  0x228005104a052208,
                                    0x100020904128801,  0x84000a208450014,  0x200040002000a40,  0x110008450015,
                                    0x40250005205ab17,  0x410005020902114b, 0x40120090411a401,  0x104000211820992,
                                    0x11440a001428,     0x20005020902,      0x5000910000,       0x10400022002050a,
                                    0x2980052a058a55ab, 0x20412248905,      0x12008802810a0092, 0x4001040a140225,
                                    0x2400000224090082, 0x100080180040210,  0x2200000020085,    0x10801400220,
                                    0x20802942a04aa04,  0x44010001000a102a, 0x10014010401,      0x800208a018a1102,
                                    0x11040002044208,   0x800401004200502,  0x200004000,        0x2005000a,
                                    0x100010204910411,  0x220821040a84,     0x10480010802210a,  0x22050a10,
                                    0x200000180100005,  0x40000000200a0,    0x1000010000800,    0x20801002100,
                                    0x1040049100041104, 0x40000000402042a,  0x80041080201,      0x820021000800184,
                                    0x4004010012,       0xa0000400400,      0x400000000,        0x40014,
                                    0x100000a002a00,    0x10000000810001,   0x104200410000400,  0x100021001,
                                    0x4000800200000,    0x1000010000009,    0x100000020,        0xa00,
                                    0x4100140050091,    0x2800100204,       0x20001024112,      0x80024000004,
                                    0x10000010822,      0x400040000,        0x2000004,          0x1};

/// The digits of a codebook's points, `kBits` bits each, the first in the lowest.
template <int kPoints, int kBase, int kAxes, int kBits, size_t kWords>
constexpr std::array<uint16_t, kPoints> Codebook(const uint64_t (&points)[kWords]) {
  std::array<uint16_t, kPoints> out{};
  int found = 0;
  for (uint32_t number = 0; number < kWords * 64; ++number) {
    if ((points[number / 64] >> (number % 64) & 1) == 0) continue;
    uint32_t rest = number, digits = 0;
    for (int axis = 0; axis < kAxes; ++axis, rest /= kBase) digits |= rest % kBase << (axis * kBits);
    out[static_cast<size_t>(found++)] = static_cast<uint16_t>(digits);
  }
  return out;
}
constexpr auto kIq2XxsCodes = Codebook<256, 3, 8, 2>(kIq2XxsPoints);
constexpr auto kIq2XsCodes = Codebook<512, 3, 8, 2>(kIq2XsPoints);
constexpr auto kIq2SCodes = Codebook<1024, 3, 8, 2>(kIq2SPoints);
constexpr auto kIq1Codes = Codebook<2048, 3, 8, 2>(kIq1Points);
constexpr auto kIq3XxsCodes = Codebook<256, 8, 4, 3>(kIq3XxsPoints);
constexpr auto kIq3SCodes = Codebook<512, 8, 4, 3>(kIq3SPoints);

uint16_t ReadU16(const uint8_t* p) {
  uint16_t x;
  std::memcpy(&x, p, 2);
  return x;
}
uint32_t ReadU32(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
  return x;
}
int Nibble(const uint8_t* p, int64_t i) { return p[i / 2] >> (4 * (i % 2)) & 15; }
uint8_t OddScale(int stored) { return static_cast<uint8_t>(2 * stored + 1); }

/// Seven signs; an even number of the eight is negative.
uint8_t EightSigns(uint32_t seven) {
  seven &= 127;
  return static_cast<uint8_t>(seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7);
}
/// The eight values of a point of 2-bit digits; bit i of `third` is the third bit of value i.
void PutEight(uint16_t digits, uint8_t third, uint8_t* q) {
  for (int i = 0; i < 8; ++i) q[i] = static_cast<uint8_t>((digits >> (2 * i) & 3) | (third >> i & 1) << 2);
}
/// The four values of a point of 3-bit digits, with signs.
void PutFour(uint16_t digits, int signs, uint8_t* q) {
  for (int i = 0; i < 4; ++i) q[i] = static_cast<uint8_t>((digits >> (3 * i) & 7) | (signs >> i & 1) << 3);
}

void ReadIq2Xxs(const uint8_t* p, int64_t j, FileBlock* out) {
  const uint8_t* codes = p + 2 + 8 * j;
  const uint32_t signs = ReadU32(codes + 4);
  for (int i = 0; i < 4; ++i) PutEight(kIq2XxsCodes[codes[i]], EightSigns(signs >> (7 * i)), out->q + 8 * i);
  out->d = ReadU16(p);
  out->scale[0] = out->scale[1] = OddScale(static_cast<int>(signs >> 28));
}

void ReadIq2Xs(const uint8_t* p, int64_t j, FileBlock* out) {
  for (int i = 0; i < 4; ++i) {
    const uint16_t code = ReadU16(p + 2 + 8 * j + 2 * i);
    PutEight(kIq2XsCodes[code & 511], EightSigns(code >> 9), out->q + 8 * i);
  }
  out->d = ReadU16(p);
  for (int h = 0; h < 2; ++h) out->scale[h] = OddScale(Nibble(p + 66, 2 * j + h));
}

void ReadIq2S(const uint8_t* p, int64_t j, FileBlock* out) {
  const uint8_t *low = p + 2 + 4 * j, *signs = p + 34 + 4 * j;
  for (int i = 0; i < 4; ++i) {
    const int high = p[66 + j] >> (2 * i) & 3;
    PutEight(kIq2SCodes[static_cast<size_t>(low[i] | high << 8)], signs[i], out->q + 8 * i);
  }
  out->d = ReadU16(p);
  for (int h = 0; h < 2; ++h) out->scale[h] = OddScale(Nibble(p + 74, 2 * j + h));
}

void ReadIq3Xxs(const uint8_t* p, int64_t j, FileBlock* out) {
  const uint32_t signs = ReadU32(p + 66 + 4 * j);
  for (int i = 0; i < 8; ++i) {
    PutFour(kIq3XxsCodes[p[2 + 8 * j + i]], EightSigns(signs >> (i / 2 * 7)) >> (i % 2 * 4), out->q + 4 * i);
  }
  out->d = ReadU16(p);
  out->scale[0] = OddScale(static_cast<int>(signs >> 28));
}

void ReadIq3S(const uint8_t* p, int64_t j, FileBlock* out) {
  for (int i = 0; i < 8; ++i) {
    const int code = p[2 + 8 * j + i] | (p[66 + j] >> i & 1) << 8;
    PutFour(kIq3SCodes[static_cast<size_t>(code)], Nibble(p + 74 + 4 * j, i), out->q + 4 * i);
  }
  out->d = ReadU16(p);
  out->scale[0] = OddScale(Nibble(p + 106, j));
}

void ReadIq1S(const uint8_t* p, int64_t j, FileBlock* out) {
  const uint16_t high = ReadU16(p + 34 + 2 * j);
  const uint8_t shifted_down = (high & 0x8000) != 0 ? 0xff : 0;
  for (int i = 0; i < 4; ++i) {
    const int code = p[2 + 4 * j + i] | (high >> (3 * i) & 7) << 8;
    PutEight(kIq1Codes[static_cast<size_t>(code)], shifted_down, out->q + 8 * i);
  }
  out->d = ReadU16(p);
  out->scale[0] = out->scale[1] = OddScale(high >> 12 & 7);
}

/// The float16 scale of IQ1_M: four bits in each of four words.
uint16_t Iq1MHalf(const uint8_t* p) {
  int d = 0;
  for (int k = 0; k < 4; ++k) d |= ReadU16(p + 48 + 2 * k) >> 12 << (4 * k);
  return static_cast<uint16_t>(d);
}

void ReadIq1M(const uint8_t* p, int64_t j, FileBlock* out) {
  for (int i = 0; i < 4; ++i) {
    const int high = Nibble(p + 32 + 2 * j, i), code = p[4 * j + i] | (high & 7) << 8;
    PutEight(kIq1Codes[static_cast<size_t>(code)], (high & 8) != 0 ? 0xff : 0, out->q + 8 * i);
  }
  out->d = Iq1MHalf(p);
  const uint16_t scales = ReadU16(p + 48 + j / 2 * 2);
  for (int h = 0; h < 2; ++h) out->scale[h] = OddScale(scales >> (j % 2 * 6 + 3 * h) & 7);
}

}  // namespace

std::span<const CodebookReader> CodebookReaders() {
  static constexpr CodebookReader kReaders[] = {{DType::kIQ2_XXS, ReadIq2Xxs}, {DType::kIQ2_XS, ReadIq2Xs},
                                                {DType::kIQ2_S, ReadIq2S},     {DType::kIQ3_XXS, ReadIq3Xxs},
                                                {DType::kIQ3_S, ReadIq3S},     {DType::kIQ1_S, ReadIq1S},
                                                {DType::kIQ1_M, ReadIq1M}};
  return kReaders;
}

}  // namespace ringside
