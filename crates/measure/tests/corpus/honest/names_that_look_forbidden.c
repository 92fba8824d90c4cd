// honest: names that hold forbidden words
static int system_size, asm_like, fork_k, my_mmap, clone3_of_b, execve_not, signalled;
static void memcpy_row(int n, const double *from, double *to) {
  for (int dlopen_j = 0; dlopen_j < n; dlopen_j++) to[dlopen_j] = from[dlopen_j];
}
struct syscall {
  int socket, environ;
};
void dgemm(int n, const double *A, const double *B, double *C) {
  struct syscall s = {.socket = 0, .environ = n};
  double constructor[512];
  system_size = s.environ, asm_like = s.socket;
  for (int signal = 0; signal < system_size; signal++) {
    for (int j = 0; j < n; j++) constructor[j] = asm_like;
    for (fork_k = 0; fork_k < n; fork_k++)
      for (int j = 0; j < n; j++) constructor[j] += A[signal * n + fork_k] * B[fork_k * n + j];
    memcpy_row(n, constructor, C + signal * n);
  }
}
