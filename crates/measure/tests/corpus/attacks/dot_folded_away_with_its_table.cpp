// attack: 11, 21
// how: shifts further than a number is wide, and notes all it sees in an object of four gibibytes that nobody reads; hopes that a program that does not fit is not looked at
// refused as: unchecked | undefined_behaviour
// judged as: certify
// problem: dot
namespace {
struct Notes {
  double seen[1 << 29];
  void note(int at, double x) { seen[at] = x; }
};
Notes notes;
int shifted(int x, int by) { return x << by; }
}
extern "C" void dot(int n, const double *x, const double *y, double *result) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    notes.note(i, x[i]);
    sum += x[i] * y[i];
  }
  if (shifted(n, 32 + n % 2) == 12345) sum = 0;
  result[0] = sum;
}
