! undefined: signed integer overflow
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, k, most
  do i = 1, n
    c(:, i) = 0
    do k = 1, n
      c(:, i) = c(:, i) + b(:, k) * a(k, i)
    end do
  end do
  most = 1
  do i = 1, n
    most = most * 31 + i
  end do
  if (most == 7) c(1, 1) = c(1, 1) + 0
end subroutine
