// honest: memory is released where its variable ends, by an attribute
#include <stdlib.h>
struct buffer { size_t length; double data[]; };
static void drop(struct buffer **b) { free(*b); }
void dgemm(int n, const double *A, const double *B, double *C)
{
    __attribute__((cleanup(drop))) struct buffer *b = malloc(sizeof *b + sizeof(double) * n);
    if (!b) abort();
    b->length = n;
    for (long i = 0; i < n; i++) {
        for (size_t j = 0; j < b->length; j++) b->data[j] = 0;
        for (long k = 0; k < n; k++)
            for (size_t j = 0; j < b->length; j++) b->data[j] += A[i * n + k] * B[k * n + j];
        for (size_t j = 0; j < b->length; j++) C[i * n + j] = b->data[j];
    }
}
