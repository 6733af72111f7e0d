package realkafka

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// ports that a server listens on, all on 127.0.0.1.
type ports struct {
	plain, login, tls, controller int
}

const scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

// properties of a single node that is broker and controller in one, with its
// data and its certificate in root.
func properties(root string, p ports, o Options) map[string]string {
	at := func(name string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", name, port) }
	clients := strings.Join([]string{at("PLAINTEXT", p.plain), at("SASL_PLAINTEXT", p.login), at("SASL_SSL", p.tls)}, ",")
	set := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"controller.quorum.bootstrap.servers":              fmt.Sprintf("127.0.0.1:%d", p.controller),
		"controller.listener.names":                        "CONTROLLER",
		"listeners":                                        clients + "," + at("CONTROLLER", p.controller),
		"advertised.listeners":                             clients,
		"inter.broker.listener.name":                       "PLAINTEXT",
		"listener.security.protocol.map":                   "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
		"sasl.enabled.mechanisms":                          "SCRAM-SHA-512,SCRAM-SHA-256",
		"ssl.keystore.type":                                "PEM",
		"ssl.keystore.location":                            filepath.Join(root, keyStore),
		"log.dirs":                                         filepath.Join(root, "data"),
		"auto.create.topics.enable":                        "false",
		"default.replication.factor":                       "1",
		"min.insync.replicas":                              "1",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"transaction.state.log.replication.factor":         "1",
		"share.coordinator.state.topic.replication.factor": "1",
		// One broker needs no 50 partitions for these.
		"offsets.topic.num.partitions":         "4",
		"transaction.state.log.num.partitions": "4",
		// Three seconds otherwise, for each group's first member.
		"group.initial.rebalance.delay.ms": "0",
	}
	for _, listener := range []string{"sasl_plaintext", "sasl_ssl"} {
		for _, mechanism := range []string{"scram-sha-512", "scram-sha-256"} {
			set["listener.name."+listener+"."+mechanism+".sasl.jaas.config"] = scramModule
		}
	}
	maps.Copy(set, o.Settings)
	return set
}

// text is the form of a properties file.
func text(set map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(&b, "%s=%s\n", name, set[name])
	}
	return b.String()
}
