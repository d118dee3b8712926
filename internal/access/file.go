package access

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/taredb/tare/internal/localstate"
)

// yamlLine is the part of an error of package yaml that contains no value.
var yamlLine = regexp.MustCompile(`line \d+`)

// maxFile bounds a file of accounts, in bytes.
const maxFile = 1 << 20

// An entry is an account with the hash of its password or token; Anonymous has neither.
type entry struct {
	Account
	password []byte            // bcrypt; nil: none
	token    [sha256.Size]byte // valid if hasToken
	hasToken bool
}

// accounts is the content of a file.
type accounts struct {
	entries map[string]*entry
	cost    int // the highest of a password's hash; 0: no account has a password
}

// fileEntry is an account in the file.
type fileEntry struct {
	Role     string `yaml:"role"`
	Texts    bool   `yaml:"texts"`
	Password string `yaml:"password"`
	Token    string `yaml:"token_sha256"`
}

// CheckFile returns the problems of a file of accounts. Errors contain no hash.
func CheckFile(path string) error {
	_, err := load(path, parse)
	return err
}

// load reads a file of accounts.
func load(path string, parse func([]byte) (*accounts, error)) (*accounts, error) {
	text, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	a, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read accounts: %s: %w", path, err)
	}
	return a, nil
}

// ReadFile reads a file that decides who has access: it must not be writable by every user, and have at most 1 MiB.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("read accounts: %s can be written by every user (mode %04o): chmod o-w it", path, info.Mode().Perm())
	}
	text, err := localstate.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read accounts: %s is larger than %d bytes", path, maxFile)
	}
	return text, nil
}

func parse(text []byte) (*accounts, error) {
	var file map[string]*fileEntry
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		// The original error would quote hashes.
		return nil, fmt.Errorf("%s: want lines such as grafana: {role: viewer, texts: false, password: <bcrypt hash>}, with no other key but token_sha256", cmp.Or(yamlLine.FindString(err.Error()), "not a map of accounts"))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document: want one")
	}
	if len(file) == 0 {
		return nil, errors.New("no accounts: want lines such as grafana: {role: viewer, texts: false, password: <bcrypt hash>}")
	}
	a := &accounts{entries: make(map[string]*entry, len(file))}
	var errs []error
	for name, given := range file {
		if given == nil {
			given = &fileEntry{}
		}
		e, err := given.entry(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("account %q: %w", name, err))
			continue
		}
		a.add(name, e)
	}
	return a, errors.Join(errs...)
}

func (a *accounts) add(name string, e *entry) {
	if e.password != nil {
		c, _ := bcrypt.Cost(e.password) // checked by entry
		a.cost = max(a.cost, c)
	}
	a.entries[name] = e
}

// operators returns accounts that are operators and see statement texts.
func operators(hashes map[string]string) (*accounts, error) {
	a := &accounts{entries: make(map[string]*entry, len(hashes))}
	var errs []error
	for name, hash := range hashes {
		e, err := (&fileEntry{Role: Operator.String(), Texts: true, Password: hash}).entry(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("account %q: %w", name, err))
			continue
		}
		a.add(name, e)
	}
	return a, errors.Join(errs...)
}

func (f *fileEntry) entry(name string) (*entry, error) {
	role, err := ParseRole(f.Role)
	if err != nil {
		return nil, err
	}
	e := &entry{Account: Account{Name: name, Role: role, Texts: f.Texts}}
	switch {
	case name == "":
		return nil, errors.New("empty name")
	case name == Anonymous:
		if f.Password != "" || f.Token != "" {
			return nil, errors.New("requests without credentials have no password or token: remove them")
		}
	case (f.Password == "") == (f.Token == ""):
		return nil, errors.New("want either password, a bcrypt hash, or token_sha256")
	case f.Password != "":
		cost, err := bcrypt.Cost([]byte(f.Password))
		if err != nil || cost > maxCost {
			return nil, fmt.Errorf("password is no bcrypt hash with a cost up to %d: create one with htpasswd -nBC 10 %s", maxCost, name)
		}
		e.password = []byte(f.Password)
	default:
		hash, err := hex.DecodeString(f.Token)
		if err != nil || len(hash) != sha256.Size {
			return nil, errors.New("token_sha256 is no SHA-256 hash: create one with printf %s \"$TOKEN\" | sha256sum")
		}
		e.token, e.hasToken = [sha256.Size]byte(hash), true
	}
	return e, nil
}

// maxCost is the maximum cost of a bcrypt hash: above it one login takes seconds.
const maxCost = 14
