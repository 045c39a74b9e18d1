package backup

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// ErrOrphan means that a record belongs to an object that is not in the backup.
var ErrOrphan = errors.New("its object is not in the backup")

// Contents describes a complete backup.
type Contents struct {
	Header Header
	Counts Counts
	// ServiceURLs are the base URLs of the issuers in the records, such as https://api.example.com, by
	// name of the realm. A realm whose spec is rejected keeps an old one when the domain changes.
	ServiceURLs map[string]string
	// WithoutRecord are the objects without a record, with their kind. They have no keys or secrets
	// yet.
	WithoutRecord []string
	// WithoutRealm are the ApiClients whose Realm is not in the backup.
	WithoutRealm []string
}

// Check reads a backup to its end and checks every entry. No entry of a backup may be used before.
//
// Errors: ErrDamaged, record.ErrUnreadable.
func Check(r *Reader) (*Contents, error) {
	x := newIndex()
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return x.contents(r.Header), nil
		}
		if err != nil {
			return nil, err
		}
		switch err := x.add(&entry); {
		case errors.Is(err, ErrOrphan):
			return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		case errors.Is(err, record.ErrUnreadable):
			return nil, fmt.Errorf("%w: %w", errRecord, err)
		case err != nil:
			return nil, err
		}
	}
}

var errRecord = errors.New("the backup has a record that this plugin cannot read; use the plugin of the release that made the backup")

// index joins the entries of a backup. Its size depends on the number of entries, not on their size.
type index struct {
	counts          Counts
	names           map[string]bool      // kinds and names of all entries
	realms, clients map[types.UID]string // names of the objects
	realmOf         map[types.UID]string // names of the realms of the clients
	recorded        map[types.UID]bool   // owners of records
	serviceURLs     map[string]string    // by name of the realm
}

func newIndex() *index {
	return &index{
		names: map[string]bool{}, realms: map[types.UID]string{}, clients: map[types.UID]string{},
		realmOf: map[types.UID]string{}, recorded: map[types.UID]bool{}, serviceURLs: map[string]string{},
	}
}

// add checks an entry and adds it. Objects come before their records.
//
// Errors: ErrDamaged; ErrOrphan and record.ErrUnreadable for a record.
func (x *index) add(entry *Entry) error {
	key := string(entry.Kind) + " " + entry.String()
	if x.names[key] || entry.Name == "" || entry.UID == "" {
		return fmt.Errorf("%w (entry %s is not valid)", ErrDamaged, key)
	}
	var err error
	switch entry.Kind {
	case KindRealm, KindClient:
		err = x.addObject(entry)
	case KindRealmRecord:
		err = x.addRealmRecord(entry)
	case KindClientRecord:
		err = x.addClientRecord(entry)
	}
	if err != nil {
		return err
	}
	if !x.counts.add(entry.Kind) {
		return fmt.Errorf("%w (entry %s is not valid)", ErrDamaged, key)
	}
	x.names[key] = true
	return nil
}

func (x *index) addObject(entry *Entry) error {
	manifest, err := entry.Manifest()
	if err != nil {
		return err
	}
	if entry.Kind == KindRealm {
		x.realms[entry.UID] = entry.Name
		return nil
	}
	spec, _ := manifest.Object["spec"].(map[string]any)
	ref, _ := spec["realmRef"].(map[string]any)
	x.clients[entry.UID] = entry.String()
	x.realmOf[entry.UID], _ = ref["name"].(string)
	return nil
}

func (x *index) addRealmRecord(entry *Entry) error {
	body, err := entry.RealmRecord()
	if err != nil {
		return err
	}
	if x.realms[entry.Owner()] != body.Name {
		return fmt.Errorf("record %s of Realm %s: %w", entry.Name, body.Name, ErrOrphan)
	}
	x.recorded[entry.Owner()] = true
	x.serviceURLs[body.Name] = strings.TrimSuffix(body.Issuer, "/"+body.Name)
	return nil
}

func (x *index) addClientRecord(entry *Entry) error {
	body, err := entry.ClientRecord()
	if err != nil {
		return err
	}
	if owner := body.Namespace + "/" + body.Name; x.clients[body.UID] != owner {
		return fmt.Errorf("record %s of ApiClient %s: %w", entry.Name, owner, ErrOrphan)
	}
	x.recorded[body.UID] = true
	return nil
}

func (x *index) contents(header Header) *Contents {
	c := &Contents{Header: header, Counts: x.counts, ServiceURLs: x.serviceURLs}
	for uid, name := range x.realms {
		if !x.recorded[uid] {
			c.WithoutRecord = append(c.WithoutRecord, "Realm "+name)
		}
	}
	for uid, name := range x.clients {
		if !x.recorded[uid] {
			c.WithoutRecord = append(c.WithoutRecord, "ApiClient "+name)
		}
		if !x.names["Realm "+x.realmOf[uid]] {
			c.WithoutRealm = append(c.WithoutRealm, name)
		}
	}
	slices.Sort(c.WithoutRecord)
	slices.Sort(c.WithoutRealm)
	return c
}
