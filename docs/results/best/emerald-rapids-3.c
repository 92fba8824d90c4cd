typedef double V __attribute__((vector_size(64),aligned(8)));
#define W 8
#define R 1
#define S 8
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<n*n;i++)C[i]=0;
 double P[n*n];
 for(int j=0;j<n;j+=S*W)for(int k=0;k<n;k++)for(int s=0;s<S*W;s++)P[j*n+k*S*W+s]=B[k*n+j+s];
 for(int l=0;l<n;l+=64)
 for(int j=0;j<n;j+=S*W){
  for(int i=0;i<n;i+=R){
   V c[R][S]={0};
   for(int k=l;k<l+64;k++)
    for(int r=0;r<R;r++)for(int s=0;s<S;s++)c[r][s]+=A[(i+r)*n+k]**(V*)&P[j*n+k*S*W+s*W];
   for(int r=0;r<R;r++)for(int s=0;s<S;s++)*(V*)&C[(i+r)*n+j+s*W]+=c[r][s];
  }
 }
}
