package main

import (
	"context"
	"os"
)

func main() {
	args := takeArgs()
	ctx, stop := untilInterrupted(context.Background())
	code := run(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
