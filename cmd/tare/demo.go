package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the gateway at work on an embedded database",
		Long: `Show the gateway at work on an embedded database.

Starts an in-memory MySQL-compatible engine, the gateway in front of it and clients that work
through it, and shows each statement's digest with its calls, latencies, rows and errors,
and the cost of the gateway itself. Its pages show one deliberately slow statement. After a
minute a release makes another one heavier, and is rolled back 90 s later: the pages show since
when, and why. Requires no database, leaves no file behind, and stops with Ctrl-C.

The ceiling of about 1,500 statements per second is the embedded engine's, not Tare's.`,
		Example: "  tare demo\n  tare demo --for 30s --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return &usageError{err: err, try: cmd.CommandPath() + " --help"}
			}
			var err error
			if o.Tare, err = os.Executable(); err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			o.Stdout, o.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if screen := terminal(o.Stdout); screen != nil {
				o.Stdout = screen
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().DurationVar(&o.For, "for", 0, "end with a summary after this `duration` (default: run until Ctrl-C)")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print the summary as JSON, and progress to standard error")
	cmd.Flags().StringVar(&o.HTTP, "http", "", "`address` of the gateway's pages (default 127.0.0.1:8316, or a free port when that is in use)")
	return cmd
}
