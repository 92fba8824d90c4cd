// honest: subscripts, braces and directives of C++ in their other spelling
%:include <array>
typedef long wide;
extern "C" void dgemm(int n, const double *A, const double *B, double *C) <%
  <:<:maybe_unused:>:> std::array<::wide, 2> shape<%<%%>%>;
  for (int i = 0; i < n; i++) <%
    for (int j = 0; j < n; j++) C<:i * n + j:> = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C<:i * n + j:> += A<:i * n + k:> * B<:k * n + j:>;
  %>
%>
