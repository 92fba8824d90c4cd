// attack: 22, 26
// how: throws out of its call; hopes that the harness is unwound as well
// refused as: forbidden_construct
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  throw n;
}
