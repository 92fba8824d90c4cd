// honest: braces and directives in their other spelling
%:define ZERO 0
void dgemm(int n, const double *A, const double *B, double *C) <%
  for (int e = 0; e < n * n; e++) C[e] = ZERO;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) <%
      double a = A[i * n + k];
      for (int j = 0; j < n; j++) C[i * n + j] += a * B[k * n + j];
    %>
%>
