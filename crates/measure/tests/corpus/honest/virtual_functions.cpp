// honest: objects with virtual functions, chosen when the program runs
struct Shape {
  virtual void run(int n, const double *A, const double *B, double *C) const = 0;

 protected:
  ~Shape() = default;
};
struct Rows final : Shape {
  void run(int n, const double *A, const double *B, double *C) const override {
    for (int i = 0; i < n * n; i++) C[i] = 0;
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
};
struct Columns final : Shape {
  void run(int n, const double *A, const double *B, double *C) const override {
    for (int j = 0; j < n; j++)
      for (int i = 0; i < n; i++) {
        double s = 0;
        for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j];
        C[i * n + j] = s;
      }
  }
};
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  static constexpr Rows rows;
  static constexpr Columns columns;
  const Shape *shape = n >= 64 ? static_cast<const Shape *>(&rows) : &columns;
  shape->run(n, A, B, C);
}
