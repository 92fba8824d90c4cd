// forbidden_technique/simd: line 3: the technique `loop_reorder`
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<n;i++)for(int k=0;k<n;k++)for(int j=0;j<n;j++)
  C[i*n+j]+=A[i*n+k]*B[k*n+j];
}
