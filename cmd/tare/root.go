package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/taredb/tare/cmd/tare/internal/help"
	"github.com/taredb/tare/internal/spelling"
)

// run executes a command line and returns the process's exit code. A command whose output cannot be written fails.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	started := false // the command line was valid
	root := newRootCommand()
	root.SetArgs(args)
	out := newOutput(stdout)
	root.SetOut(out)
	root.SetErr(newOutput(stderr))
	root.SetFlagErrorFunc(flagError)
	addCompletion(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := noNegativeDuration(cmd)
		started = err == nil
		return err
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		err = &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	if err == nil {
		err = out.err()
	}
	if err != nil {
		err = &flaggedError{err, cmd}
	}
	return report(ctx, cmd.ErrOrStderr(), cmd.CommandPath(), err)
}

func newRootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "tare",
		Short: "A MySQL gateway that measures every query and adds almost nothing of its own",
		Long: `Tare is a MySQL gateway that measures every query and adds almost nothing of its own.

It runs between applications and a MySQL-compatible server, relays the protocol, identifies each
statement by its digest, and logs its cost.`,
		Example: "  tare demo\n  tare serve --backend mysql://127.0.0.1:3306",
		// report prints errors, once and without the whole usage.
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.AddCommand(newServeCommand(), newStoreCommand(), newFrontendCommand(), newRowstreamCommand(), newCopyCommand(), newAlterCommand(), newDemoCommand(), newTopCommand(), newReadyCommand(), newBenchCommand(), newConfigCommand(), newVersionCommand())
	root.SetHelpCommand(newHelpCommand())
	printVersion(root)
	help.Install(root)
	return root
}

// addCompletion adds cobra's completion command, which prints to the writer that the root has at this time. Unlike cobra's it fails for
// an unknown shell.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, sub := range root.Commands() {
		if sub.Name() == "completion" {
			group(sub)
		}
	}
}

// newHelpCommand returns the help command. Unlike cobra's it fails for an unknown command.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = fmt.Errorf("unknown command %q for %q", rest[0], of.CommandPath())
			}
			if err != nil {
				return &usageError{err: err, try: "tare --help"}
			}
			return of.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), begun) {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// noNegativeDuration returns an error for a flag that is a negative duration, which no command has a meaning for.
func noNegativeDuration(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "duration" && strings.HasPrefix(f.Value.String(), "-") {
			err = errors.Join(err, fmt.Errorf("--%s %s: want a duration such as 250ms, 30s or 2h", f.Name, f.Value))
		}
	})
	return err
}

// flagError adds the flag that was probably meant to an error about an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return fmt.Errorf("%w%s", err, spelling.Suggest("--"+unknown.GetSpecifiedName(), names))
}

// group makes a command that only has subcommands fail without one.
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
