// loop_reorder
void dgemm(int n, const double *A, const double *B, double *C) <%
  static double row<:1024:>;
  for (int i = 0; i < n; i++) <%
    for (int j = 0; j < n; j++) row<:j:> = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row<:j:> += A<:i * n + k:> * B<:k * n + j:>;
    for (int j = 0; j < n; j++) C<:i * n + j:> = row<:j:>;
  %>
%>
