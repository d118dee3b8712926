package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/help"
	"github.com/taredb/tare/cmd/tare/internal/server"
)

// flagText is the unparsed value of a flag. It is parsed together with the values from the file and the
// environment, so that all of them get the same errors.
type flagText struct {
	option *config.Option
	text   string
	given  map[string]string
}

func (f *flagText) String() string { return f.text }

func (f *flagText) Type() string { return f.option.Kind }

func (f *flagText) Set(text string) error {
	if earlier, ok := f.given[f.option.Name]; ok && f.option.Repeats() {
		text = earlier + "\n" + text
	}
	f.text = text
	f.given[f.option.Name] = text
	return nil
}

// bindFlags adds a flag for each option of a section to a command, or for the named ones alone: a command that shares the section
// of another one may use a part. Once the command line is parsed, the map has the flags that were given.
func bindFlags(cmd *cobra.Command, set *config.Set, named ...string) (given map[string]string) {
	given = make(map[string]string)
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, o := range set.Options() {
		if len(named) > 0 && !slices.Contains(named, o.Name) {
			continue
		}
		f := flags.VarPF(&flagText{option: o, text: o.Default, given: given}, o.Name, "", o.Help)
		if o.Group != "" {
			f.Annotations = map[string][]string{help.Group: {o.Group}}
		}
		var err error
		switch {
		case o.Kind == "bool":
			f.NoOptDefVal = "true"
		case o.Kind == "file":
			err = cmd.MarkFlagFilename(o.Name)
		case o.Kind == "dir":
			err = cmd.MarkFlagDirname(o.Name)
		case strings.Contains(o.Kind, "|"):
			err = cmd.RegisterFlagCompletionFunc(o.Name, cobra.FixedCompletions(strings.Split(o.Kind, "|"), cobra.ShellCompDirectiveNoFileComp))
		}
		if err != nil {
			panic("BUG: " + err.Error()) // the flag was added above
		}
	}
	return given
}

// newServerCommand completes the subcommand of a server, whose options are set when service is called. diag is among them.
func newServerCommand(cmd *cobra.Command, options config.Command, diag *config.Diag, service func(log *slog.Logger) server.Service) *cobra.Command {
	given := bindFlags(cmd, options.Set())
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := start(cmd, options, diag, given)
		if err != nil {
			return err
		}
		return server.Run(cmd.Context(), service(log))
	}
	return cmd
}

// start loads a command's options and returns Tare's log, whose first lines are the configuration's warnings.
func start(cmd *cobra.Command, options config.Command, diag *config.Diag, given map[string]string) (*slog.Logger, error) {
	warnings, err := load(cmd, options, given)
	if err != nil {
		return nil, err
	}
	if err := options.Ready(); err != nil {
		return nil, &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	syscall.Umask(int(diag.Umask))
	log := diag.Logger(cmd.ErrOrStderr())
	for _, w := range warnings {
		log.Warn(w) //nolint:sloglint // the configuration says it whole
	}
	return log, nil
}

// load fills a command's options from file, environment and flags.
func load(cmd *cobra.Command, options config.Command, given map[string]string) (warnings []string, err error) {
	warnings, err = options.Load(config.Input{Flags: given, Environ: os.Environ()})
	if err != nil {
		err = &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	return warnings, err
}

// exclusive refuses a flag together with any of the others.
func exclusive(cmd *cobra.Command, flag string, others ...string) error {
	for _, other := range others {
		if cmd.Flags().Changed(flag) && cmd.Flags().Changed(other) {
			return fmt.Errorf("--%s and --%s do not go together", flag, other)
		}
	}
	return nil
}

// noEffect refuses the given ones of some flags unless they have an effect; without says why they have none.
func noEffect(cmd *cobra.Command, met bool, without string, flags ...string) error {
	var errs []error
	for _, flag := range flags {
		if !met && cmd.Flags().Changed(flag) {
			errs = append(errs, fmt.Errorf("--%s has no effect %s", flag, without))
		}
	}
	return errors.Join(errs...)
}

// checked turns an error of Validate into a usage error.
func checked(cmd *cobra.Command, err error) error {
	if err != nil {
		return &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	return nil
}
