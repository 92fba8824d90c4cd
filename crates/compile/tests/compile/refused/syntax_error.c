// compile_error: kernel.c:3:
void dgemm(int n,const double*A,const double*B,double*C){
 C[0]=A[0]+;
}
