! problem: dgemm
! techniques: register_blocking+packing+layout_change
module kernels
  use iso_c_binding
  implicit none
  integer, parameter :: dp = c_double
contains
  subroutine dgemm(n, a, b, c) bind(c, name="dgemm")
    integer(c_int), value :: n
    real(dp), intent(in) :: a(n, n), b(n, n)
    real(dp), intent(out) :: c(n, n)
    real(dp), allocatable :: p(:, :)
    integer :: i, j
    allocate (p(n, n))
    call turn(n, b, p)
    do i = 1, n, 2
      do j = 1, n, 2
        call tile(n, a(:, i), a(:, i + 1), p(:, j), p(:, j + 1), c(j, i), c(j + 1, i), c(j, i + 1), c(j + 1, i + 1))
      end do
    end do
    deallocate (p)
  end subroutine dgemm
  subroutine turn(n, b, p)
    integer, intent(in) :: n
    real(dp), intent(in) :: b(n, n)
    real(dp), intent(out) :: p(n, n)
    integer :: j, k
    do j = 1, n
      do k = 1, n
        p(k, j) = b(j, k)
      end do
    end do
  end subroutine turn
  pure subroutine tile(n, a1, a2, b1, b2, c11, c12, c21, c22)
    integer, intent(in) :: n
    real(dp), intent(in) :: a1(n), a2(n), b1(n), b2(n)
    real(dp), intent(out) :: c11, c12, c21, c22
    integer :: k
    real(dp) :: s11, s12, s21, s22
    s11 = 0; s12 = 0; s21 = 0; s22 = 0
    do k = 1, n
      s11 = s11 + a1(k) * b1(k)
      s12 = s12 + a1(k) * b2(k)
      s21 = s21 + a2(k) * b1(k)
      s22 = s22 + a2(k) * b2(k)
    end do
    c11 = s11
    c12 = s12
    c21 = s21
    c22 = s22
  end subroutine tile
end module kernels
