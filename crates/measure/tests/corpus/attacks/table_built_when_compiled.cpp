// attack: 21, 26
// how: has the compiler fill a table of 64 MiB and keep it in each of five objects; hopes that compilers have memory and time without end
// refused as: compile_limit | compile_error | harmless
// control: C[i] = table.value[(i * 4096l) & ((1 << 26) - 1)] * 0.0; => C[i] = 0;
struct Table {
  unsigned char value[1 << 26];
  constexpr Table() : value() {
    for (int i = 0; i < 1 << 26; i += 4096) value[i] = (unsigned char)(i >> 12);
  }
};
static constexpr Table table{};
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = table.value[(i * 4096l) & ((1 << 26) - 1)] * 0.0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
