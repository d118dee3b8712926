package main

import (
	"context"
	"os"
)

func main() {
	ctx, stop := untilInterrupted(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
