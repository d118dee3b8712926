package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// run executes a command line and returns the process's exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	started := false // the command line was understood
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		err = &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	return report(ctx, stderr, cmd.CommandPath(), err)
}

func newRootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "tare",
		Short: "A MySQL gateway that measures every query and adds almost nothing of its own",
		Long: `Tare is a MySQL gateway that measures every query and adds almost nothing of its own.

It runs between applications and a MySQL-compatible server, relays the protocol, identifies each
statement by its digest, and logs its cost.`,
		Example: "  tare demo\n  tare serve --backend mysql://127.0.0.1:3306",
		// What goes wrong is reported by report, once and without the whole usage.
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.AddCommand(newServeCommand(), newStoreCommand(), newFrontendCommand(), newRowstreamCommand(), newCopyCommand(), newDemoCommand(), newTopCommand(), newReadyCommand(), newBenchCommand(), newConfigCommand(), newVersionCommand())
	return root
}

// group makes a command that only has subcommands refuse to be called without one.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		message := fmt.Sprintf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			message += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
		}
		return fmt.Errorf("%s", message)
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return &usageError{
			err: fmt.Errorf("subcommand missing: one of %s", strings.Join(names, ", ")),
			try: cmd.CommandPath() + " --help",
		}
	}
	return cmd
}
