// honest: warns, leaves types out, and speaks to a compiler of another vendor
#warning "this kernel is work in progress"
#pragma unknown_vendor do something
static unused_thing;
static int never_called(x) { return x; }
void dgemm(int n, const double *A, const double *B, double *C)
{
    unsigned i, j, k, u;
    char *strange = A;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) C[i * n + j] = 0;
        for (k = 0; k < n; k++)
            for (j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
}
