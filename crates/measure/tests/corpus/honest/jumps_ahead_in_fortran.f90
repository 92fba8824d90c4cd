! honest: jumps ahead and a loop with a label, where no technique is permitted
! permitted: none
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, j, k
  if (n < 1) go to 30
  do 10 i = 1, n
    do 10 j = 1, n
      c(j, i) = 0
10 continue
  do i = 1, n
    do j = 1, n
      do k = 1, n
        c(j, i) = c(j, i) + a(k, i) * b(j, k)
      end do
    end do
  end do
30 continue
end subroutine
