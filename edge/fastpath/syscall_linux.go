//go:build linux && (amd64 || arm64) && !race

package fastpath

import (
	"syscall"
	"unsafe"
)

// Neither call ever waits, so that the scheduler need not be told of it. They are cheaper
// than read and write, and MSG_NOSIGNAL avoids SIGPIPE.

// receive reads what has arrived.
func receive(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// send writes as much as the kernel has room for, and nothing after an error.
func send(fd uintptr, p []byte) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}
