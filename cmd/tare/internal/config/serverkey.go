package config

import (
	"fmt"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A ServerKey are the options for the RSA key by which passwords are encrypted on connections without TLS.
type ServerKey struct {
	prefix  string
	file    string
	request bool
}

// declare adds the options to a section. Their names begin with prefix, that of the server's option.
func (k *ServerKey) declare(s *Set, prefix string) {
	k.prefix = prefix
	s.String(&k.file, prefix+"-public-key", "file", "", "RSA public key of --"+prefix+" (PEM) for passwords without TLS")
	s.Bool(&k.request, prefix+"-get-public-key", "send passwords without TLS by the key that --"+prefix+" presents: an impostor gets them")
}

// validate reports options that contradict each other.
func (k *ServerKey) validate() error {
	if k.file != "" && k.request {
		return fmt.Errorf("--%[1]s-public-key and --%[1]s-get-public-key exclude each other", k.prefix)
	}
	return nil
}

// Load reads the file of the key.
func (k *ServerKey) Load() (key mysqlconn.ServerKey, err error) {
	key = mysqlconn.ServerKey{Request: k.request, Options: [2]string{"--" + k.prefix + "-public-key", "--" + k.prefix + "-get-public-key"}}
	if k.file == "" {
		return key, nil
	}
	text, err := localstate.ReadFile(k.file)
	if err == nil {
		key.Key, err = mysqlconn.ParsePublicKey(text)
	}
	if err != nil {
		return key, fmt.Errorf("load --%s-public-key: %w", k.prefix, err)
	}
	return key, nil
}
