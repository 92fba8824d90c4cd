// honest: a generator says which file its lines come from, and macros stand for keywords
#define PROC void
#define BEGIN {
#define END }
#define LOOP(v) for (long v = 0; v < n; ++v)
#define R const double *
#line 1000 "generated/kernel.f90"
PROC dgemm(int n, R A, R B, double *C) BEGIN
    LOOP(i) BEGIN
        LOOP(j) C[i * n + j] = 0;
        LOOP(k) LOOP(j) C[i * n + j] += A[i * n + k] * B[k * n + j];
    END
END
