// honest: subscripts and braces in their other spelling
%:include <stddef.h>
void dgemm(int n, const double *A, const double *B, double *C)
<%
    for (ptrdiff_t i = 0; i < n; i++) <%
        for (ptrdiff_t j = 0; j < n; j++) C<:i * n + j:> = 0;
        for (ptrdiff_t k = 0; k < n; k++)
            for (ptrdiff_t j = 0; j < n; j++) C<:i * n + j:> += A<:i * n + k:> * B<:k * n + j:>;
    %>
%>
