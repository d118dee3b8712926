package config

import (
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/localstate"
)

// Accounts are passwords by user name.
type Accounts map[string]Secret

// maxAccounts bounds a file of accounts, in bytes.
const maxAccounts = 8 << 20

// LoadAccounts reads a file of accounts: YAML, a user and a password per line. Only its owner may have
// permission to read it. Errors contain nothing of its content.
func LoadAccounts(path string) (Accounts, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("accounts: %s may be read or written by others (mode %04o): it holds passwords; chmod 600 it", path, info.Mode().Perm())
	}
	if info.Size() > maxAccounts {
		return nil, fmt.Errorf("accounts: %s has %d bytes: want at most %d", path, info.Size(), maxAccounts)
	}
	text, err := localstate.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("accounts: %s is not YAML: want lines such as app: password", path)
	}
	if len(doc.Content) == 0 {
		return nil, fmt.Errorf("accounts: %s has no accounts: want lines such as app: password", path)
	}
	all := make(Accounts)
	pairs := doc.Content[0]
	if pairs.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("accounts: %s:%d: want lines such as app: password", path, pairs.Line)
	}
	var errs []error
	for i := 0; i+1 < len(pairs.Content); i += 2 {
		user, password := pairs.Content[i], pairs.Content[i+1]
		switch _, twice := all[user.Value]; {
		case user.Kind != yaml.ScalarNode || password.Kind != yaml.ScalarNode || password.Tag == "!!null":
			errs = append(errs, fmt.Errorf(`accounts: %s:%d: want a user and a password, which may be ""`, path, user.Line))
		case twice:
			errs = append(errs, fmt.Errorf("accounts: %s:%d: duplicate user", path, user.Line))
		}
		all[user.Value] = NewSecret(password.Value)
	}
	return all, errors.Join(errs...)
}
