// Package address says where a delivery may go.
//
// There are two gates. CanonicalURL judges the text of a destination when it
// is written and gives the one form under which it is stored. Permits judges
// the address that is about to be dialled, after name resolution, on every
// connection: a name says nothing about where it leads, and what it led to
// yesterday says nothing about today. The dialer asks Permits for every address
// of a name, and one refused address refuses the name.
//
// Allowed is the rule behind both: an address of the public internet and
// nothing else. It is a list of what is open in IPv6 (2000::/3) and of what is
// closed in IPv4, after the special-purpose registries of IANA.
package address
