! problem: softmax
! techniques: branch_removal
subroutine softmax(m, n, in, out) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_float), intent(in) :: in(n, m)
  real(c_float), intent(out) :: out(n, m)
  real(c_double) :: most, total
  integer :: i
  do i = 1, m
    most = maxval(in(:, i))
    total = sum(exp(in(:, i) - most))
    out(:, i) = exp(in(:, i) - most) / total
  end do
end subroutine softmax
