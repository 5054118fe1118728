package mapfile

import "golang.org/x/sys/unix"

// keepPagesSmall has the system map what is read of a file in small pages:
// otherwise a row brings two megabytes with it where the file is cached so.
func keepPagesSmall(data []byte) { _ = unix.Madvise(data, unix.MADV_NOHUGEPAGE) }
