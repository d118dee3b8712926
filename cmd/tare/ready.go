package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/cmd/tare/internal/top"
)

func newReadyCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "ready [address]",
		Short: "Check whether a Tare server is ready, for health checks",
		Long: `Check whether a Tare server is ready: a gateway if it can log in to its backend, a store if it has
synced its bucket.

Prints the response of /-/ready and exits with 0 if the server is ready, otherwise with 1. It replaces
curl in containers without one.`,
		Example: `  tare ready
  tare ready 127.0.0.1:8316
  tare ready --url http://127.0.0.1:8316 --user ops --password-file /etc/tare/password
  tare ready --url https://db1.example:8316 --token-file /etc/tare/token --ca ca.pem`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.address(cmd, args); err != nil {
				return &usageError{err: err, try: cmd.CommandPath() + " --help"}
			}
			client, err := f.client(os.Getenv)
			if err != nil {
				return &usageError{err: err, try: cmd.CommandPath() + " --help"}
			}
			defer client.Close()
			response, err := client.Ready(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), response)
			return err
		},
	}
	cmd.Flags().SortFlags = false
	f.add(cmd, "server")
	return cmd
}

// clientFlags are the address of a server's HTTP API and the account for it.
type clientFlags struct {
	options                 top.ClientOptions
	passwordFile, tokenFile string
	caFile                  string
}

func (f *clientFlags) add(cmd *cobra.Command, of string) {
	flags := cmd.Flags()
	flags.StringVar(&f.options.URL, "url", "http://127.0.0.1:8316", "`address` of the "+of+"'s HTTP side (its --http); --http is the same")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "http" {
			name = "url"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVar(&f.options.User, "user", "", "account of --url")
	flags.StringVar(&f.passwordFile, "password-file", "", "`file` with the account's password in its first line; without one, "+config.EnvTopPassword)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the token of an account in its first line; without one or --user, "+config.EnvTopToken)
	flags.StringVar(&f.caFile, "ca", "", "`file` with the authorities of --url's certificate (PEM); the system's when empty")
}

// address uses the argument as the address if it is given instead of --url.
func (f *clientFlags) address(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Changed("url") {
		return errors.New("an address and --url exclude each other")
	}
	f.options.URL = args[0]
	return nil
}

// client validates the flags. It does not connect.
func (f *clientFlags) client(getenv func(string) string) (_ *top.Client, err error) {
	o := f.options
	switch {
	case f.passwordFile != "":
		o.Password, err = config.ReadSecretFile(f.passwordFile)
	case o.User != "":
		o.Password = getenv(config.EnvTopPassword)
	}
	if err != nil {
		return nil, fmt.Errorf("read --password-file: %w", err)
	}
	switch {
	case f.tokenFile != "":
		o.Token, err = config.ReadSecretFile(f.tokenFile)
	case o.User == "":
		o.Token = getenv(config.EnvTopToken)
	}
	if err != nil {
		return nil, fmt.Errorf("read --token-file: %w", err)
	}
	if o.RootCAs, err = server.LoadCAs("--ca", f.caFile); err != nil {
		return nil, err
	}
	return top.NewClient(o)
}
