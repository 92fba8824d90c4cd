// honest: memory is released where its variables end, by functions that share one
#include <stdlib.h>
static void release(void *memory) { free(memory); }
static void drop(double **b) { release(*b); }
static void drop_line(double **b) { if (*b) release(*b); }
void dgemm(int n, const double *A, const double *B, double *C)
{
    __attribute__((cleanup(drop))) double *row = malloc(sizeof(double) * n);
    __attribute__((cleanup(drop_line))) double *line = malloc(sizeof(double) * n);
    if (!row || !line) abort();
    for (long i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) row[j] = 0;
        for (long k = 0; k < n; k++) line[k] = A[i * n + k];
        for (long k = 0; k < n; k++)
            for (int j = 0; j < n; j++) row[j] += line[k] * B[k * n + j];
        for (int j = 0; j < n; j++) C[i * n + j] = row[j];
    }
}
