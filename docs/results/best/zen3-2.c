typedef double V;
#define W 1
#define R 4
#define S 8
void dgemm(int n,const double*A,const double*B,double*C){
 double P[n*n];
 for(int j=0;j<n;j+=S*W)for(int k=0;k<n;k++)for(int s=0;s<S*W;s++)P[j*n+k*S*W+s]=B[k*n+j+s];
 for(int j=0;j<n;j+=S*W){
  for(int i=0;i<n;i+=R){
   V c[R][S]={0};
#pragma GCC unroll 8
   for(int k=0;k<n;k++){
    __builtin_prefetch(&B[(k+8)*n+j]);
    for(int r=0;r<R;r++)for(int s=0;s<S;s++)c[r][s]+=A[(i+r)*n+k]**(V*)&P[j*n+k*S*W+s*W];
   }
   for(int r=0;r<R;r++)for(int s=0;s<S;s++)*(V*)&C[(i+r)*n+j+s*W]=c[r][s];
  }
 }
}
