package main

import (
	"context"
	"os"
	"syscall"
)

func main() {
	syscall.Umask(0o077) // until a command's own; files have rows and statement texts
	args := takeArgs()
	ctx, stop := untilInterrupted(context.Background())
	code := run(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
