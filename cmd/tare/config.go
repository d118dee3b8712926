package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

func newConfigCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration",
	})
	cmd.AddCommand(newConfigCheckCommand(), newConfigPrintCommand())
	return cmd
}

func newConfigCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Report all errors in a configuration file, by line",
		Long: `Check a configuration file, together with the TARE_ variables of the environment, without
starting anything.`,
		Example: "  tare config check /etc/tare.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := config.ReadConfig(args[0])
			if err != nil {
				return checked(cmd, err)
			}
			var errs []error
			for i, c := range config.Commands() {
				warnings, err := c.Load(config.Input{Flags: map[string]string{"config": args[0]}, Environ: os.Environ(), File: file})
				if i == 0 { // the warnings concern the whole environment
					warn(cmd, warnings)
				}
				if serve, ok := c.(*config.Serve); ok && err == nil { // the planner validates rules
					_, err = planRules(serve.Rules, serve.RulesDryRun)
				}
				errs = append(errs, err)
			}
			if err := onceEach(errs); err != nil {
				return checked(cmd, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", args[0])
			return nil
		},
	}
}

// onceEach joins errors without the lines that an earlier one has: each command reports all values of the file that cannot be parsed.
func onceEach(errs []error) error {
	var lines []error
	seen := make(map[string]bool)
	for _, err := range errs {
		if err == nil {
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !seen[line] {
				seen[line] = true
				lines = append(lines, errors.New(line))
			}
		}
	}
	return errors.Join(lines...)
}

func newConfigPrintCommand() *cobra.Command {
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "print [SUBCOMMAND]",
		Short: "Print every value and its origin",
		Long: `Print every value and its origin (default, file, env or flag), as a configuration file or as
JSON. Secrets are masked. With a subcommand, its flags are included.`,
		Example: "  tare config print --config /etc/tare.yaml\n  tare config print serve --listen :3316 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := make(map[string]string)
			var text []byte
			if cmd.Flags().Changed("config") && file != "" {
				given["config"] = file
				var err error
				if text, err = config.ReadConfig(file); err != nil {
					return checked(cmd, err)
				}
			}
			return printConfig(cmd, asJSON, config.Input{Flags: given, File: text}, config.Commands())
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "YAML `file` with the options")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	for _, c := range config.Commands() {
		cmd.AddCommand(newConfigPrintSectionCommand(c))
	}
	return cmd
}

// newConfigPrintSectionCommand returns the command that prints one section, with the flags of its subcommand.
func newConfigPrintSectionCommand(options config.Command) *cobra.Command {
	var asJSON bool
	var given map[string]string
	cmd := &cobra.Command{
		Use:   options.Set().Name,
		Short: "Print the configuration of tare " + options.Set().Name + " with these flags",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printConfig(cmd, asJSON, config.Input{Flags: given}, []config.Command{options})
		},
	}
	given = bindFlags(cmd, options.Set())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printConfig(cmd *cobra.Command, asJSON bool, in config.Input, commands []config.Command) error {
	in.Environ = os.Environ()
	var sections []*config.Set
	for i, c := range commands {
		warnings, err := c.Load(in)
		if i == 0 {
			warn(cmd, warnings)
		}
		if err != nil {
			return checked(cmd, err)
		}
		sections = append(sections, c.Set())
	}
	if asJSON {
		return config.WriteJSON(cmd.OutOrStdout(), sections)
	}
	return config.WriteYAML(cmd.OutOrStdout(), sections)
}

// warn prints the warnings about the configuration.
func warn(cmd *cobra.Command, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", cmd.CommandPath(), w)
	}
}
