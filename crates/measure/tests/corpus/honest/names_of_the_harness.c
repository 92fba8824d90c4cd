// honest: names that a harness might have
static int control, supervisor, status, order, done, ready, seed, baseline, verdict;
static void prepare(int n, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = control;
}
static void call(int n, double entry, const double *plan, double *answer) {
  for (int j = 0; j < n; j++) answer[j] += entry * plan[j];
}
static int park(void) { return supervisor + status + order + done + ready + seed + baseline + verdict; }
int main_loop(int n) { return n + park(); }
void dgemm(int n, const double *A, const double *B, double *C) {
  prepare(n, C);
  for (int harness = 0; harness < main_loop(n); harness++)
    for (int k = 0; k < n; k++) call(n, A[harness * n + k], B + k * n, C + harness * n);
}
