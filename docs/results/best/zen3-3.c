typedef double V __attribute__((vector_size(32),aligned(8)));
#define W 4
#define R 4
#define S 2
void dgemm(int n,const double*A,const double*B,double*C){
 double P[n*n];
 for(int j=0;j<n;j+=S*W)for(int k=0;k<n;k++)for(int s=0;s<S*W;s++)P[j*n+k*S*W+s]=B[k*n+j+s];
 for(int l=0;l<n;l+=32)
 for(int j=0;j<n;j+=S*W){
  for(int i=l;i<l+32;i+=R){
   V c[R][S]={0};
#pragma GCC unroll 8
   for(int k=0;k<n;k++)
    for(int r=0;r<R;r++)for(int s=0;s<S;s++)c[r][s]+=A[(i+r)*n+k]**(V*)&P[j*n+k*S*W+s*W];
   for(int r=0;r<R;r++)for(int s=0;s<S;s++)*(V*)&C[(i+r)*n+j+s*W]=c[r][s];
  }
 }
}
