! stack-buffer-overflow: WRITE of size 8
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double) :: row(8)
  integer :: i, k
  do i = 1, n
    c(:, i) = 0
    do k = 1, n
      c(:, i) = c(:, i) + b(:, k) * a(k, i)
    end do
  end do
  row = 0
  call add(mod(n, 64) + 9, row)
  if (row(1) > huge(1.0d0)) c(1, 1) = 0
contains
  subroutine add(m, x)
    integer, intent(in) :: m
    real(c_double), intent(inout) :: x(*)
    x(m) = x(1) + c(1, 1)
  end subroutine
end subroutine
