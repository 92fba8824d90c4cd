! problem: nbody
! techniques: none
subroutine nbody(n, x, y, z, mass, ax, ay, az) bind(c, name="nbody")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: x(n), y(n), z(n), mass(n)
  real(c_double), intent(out) :: ax(n), ay(n), az(n)
  real(c_double) :: dx, dy, dz, square, pull, sx, sy, sz
  integer :: i, j
  do i = 1, n
    sx = 0
    sy = 0
    sz = 0
    do j = 1, n
      dx = x(j) - x(i)
      dy = y(j) - y(i)
      dz = z(j) - z(i)
      square = dx * dx + dy * dy + dz * dz + 0.01d0
      pull = mass(j) / (square * sqrt(square))
      sx = sx + pull * dx
      sy = sy + pull * dy
      sz = sz + pull * dz
    end do
    ax(i) = sx
    ay(i) = sy
    az(i) = sz
  end do
end subroutine nbody
