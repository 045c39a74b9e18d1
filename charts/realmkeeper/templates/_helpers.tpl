{{/*
Object names are fixed. Realms are cluster-scoped, so a cluster has a single instance, and the
operator manages objects with fixed names. Helm rejects a second release because the objects of the
first release have the same names.
*/}}

{{/*
The labels of every object. Labels of Kubernetes change what objects do. For example, they could add the
permissions of the operator to the role "admin", or relax Pod Security in the records namespace.
*/}}
{{- define "realmkeeper.labels" -}}
{{- range $label := keys .Values.commonLabels | sortAlpha -}}
{{- if and (regexMatch `(^|\.)(kubernetes\.io|k8s\.io|helm\.sh|realmkeeper\.dev)/` $label) (ne $label "app.kubernetes.io/part-of") -}}
{{- fail (printf "commonLabels must not contain %s; of the labels of Kubernetes and Helm, only app.kubernetes.io/part-of is allowed" $label) -}}
{{- end -}}
{{- end -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_.")
  "app.kubernetes.io/name" "realmkeeper"
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63 | trimAll "-_.")
  "app.kubernetes.io/managed-by" .Release.Service -}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end }}

{{/* The labels that select the Pods of the component in the argument. They are immutable. */}}
{{- define "realmkeeper.selector" -}}
app.kubernetes.io/name: realmkeeper
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "realmkeeper.domain" -}}
{{- required "set instance.domain, such as --set instance.domain=example.com; the token service is then at https://api.<instance.domain>" .Values.instance.domain -}}
{{- end }}

{{/* The host name of the token service. */}}
{{- define "realmkeeper.host" -}}
api.{{ include "realmkeeper.domain" . }}
{{- end }}

{{/* The host name of the token service inside the cluster. The operator creates the Service. */}}
{{- define "realmkeeper.serviceHost" -}}
realmkeeper-token-server.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The namespace of the records. */}}
{{- define "realmkeeper.recordsNamespace" -}}
{{- $name := .Values.recordsNamespace.name | default (printf "%s-records" .Release.Namespace) -}}
{{- if eq $name .Release.Namespace -}}
{{- fail (printf "recordsNamespace.name must differ from the release namespace %q, because token servers can read every Secret in the records namespace" $name) -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{/*
The namespaces in which the operator has its permissions for clients, as a YAML list. The empty name
stands for all namespaces.
*/}}
{{- define "realmkeeper.servedNamespaces" -}}
{{- .Values.operator.watchNamespaces | default (list "") | toYaml -}}
{{- end }}

{{/* Not empty if helm test can get a token in the release namespace. */}}
{{- define "realmkeeper.testable" -}}
{{- $served := or (not .Values.operator.watchNamespaces) (has .Release.Namespace .Values.operator.watchNamespaces) -}}
{{- if and .Values.test.enabled .Values.credentialsSecrets.enabled $served }}true{{ end -}}
{{- end }}

{{/* The host name of the portal. */}}
{{- define "realmkeeper.portal.host" -}}
{{- .Values.portal.host | default (printf "portal.%s" (include "realmkeeper.domain" .)) -}}
{{- end }}

{{- define "realmkeeper.portal.url" -}}
https://{{ include "realmkeeper.portal.host" . }}{{ if ne (int .Values.instance.externalPort) 443 }}:{{ int .Values.instance.externalPort }}{{ end }}
{{- end }}

{{- define "realmkeeper.portal.port" -}}
{{- ternary 443 80 (not (empty .Values.portal.tls.secretName)) -}}
{{- end }}

{{- define "realmkeeper.image" -}}
{{- with .Values.image -}}
{{- .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{/* The Secret with the serving certificate; empty if the operator manages the certificate. */}}
{{- define "realmkeeper.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled -}}
{{- .Values.tls.secretName | default "realmkeeper-tls" -}}
{{- else -}}
{{- .Values.tls.secretName -}}
{{- end -}}
{{- end }}

{{/* The ConfigMap with the CAs of a managed certificate; empty if the operator does not manage it. */}}
{{- define "realmkeeper.managedBundle" -}}
{{- if not (include "realmkeeper.tlsSecret" .) }}realmkeeper-ca-bundle{{ end -}}
{{- end }}

{{/*
Additional flags, of which none may be in the list of flags that the chart sets.
Arguments: key, args, reserved.
*/}}
{{- define "realmkeeper.extraArgs" -}}
{{- range .args -}}
{{- $flag := regexFind "^--[-a-z0-9]+" . -}}
{{- if has $flag $.reserved -}}
{{- fail (printf "%s must not set %s, which the chart sets; use its value if there is one" $.key $flag) -}}
{{- end -}}
{{- end -}}
{{- toYaml .args -}}
{{- end }}

{{/* Additional environment variables, likewise. Arguments: key, env. */}}
{{- define "realmkeeper.extraEnv" -}}
{{- range .env -}}
{{- if has .name (list "POD_NAME" "POD_NAMESPACE" "KUBECONFIG" "GOGC") -}}
{{- fail (printf "%s must not set %s, which the chart sets or which selects another cluster; remove it" $.key .name) -}}
{{- end -}}
{{- end -}}
{{- toYaml .env -}}
{{- end }}

{{/*
Topology spread constraints. Constraints without a labelSelector apply to the component's Pods.
Arguments: constraints, component.
*/}}
{{- define "realmkeeper.topologySpread" -}}
{{- $constraints := list -}}
{{- range .constraints -}}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "realmkeeper.selector" $.component | fromYaml)) -}}
{{- $constraints = append $constraints (merge (deepCopy .) (ternary dict $own (hasKey . "labelSelector"))) -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end }}

{{/* The instance configuration. See docs/operations/configuration.md. */}}
{{- define "realmkeeper.configuration" -}}
{{- $settings := .Values.tokenServer -}}
{{- $tokenServer := dict
  "imagePullPolicy" ($settings.imagePullPolicy | default .Values.image.pullPolicy)
  "replicas" (int $settings.replicas)
  "resources" $settings.resources -}}
{{- range $key := list "image" "nodeSelector" "affinity" "tolerations" "priorityClassName" "podAnnotations" "podLabels" "podSecurityContext" "securityContext" "extraEnv" "extraArgs" "audit" "trustedProxies" "proxyProtocolFrom" "passthroughProxies" "maxStaleness" "idleTimeout" "acceptedServiceAccountIssuers" -}}
{{- with index $settings $key -}}
{{- $_ := set $tokenServer $key . -}}
{{- end -}}
{{- end -}}
{{- if $settings.tracing.endpoint -}}
{{- $_ := set $tokenServer "tracing" (dict "endpoint" $settings.tracing.endpoint "samplePercentage" (int $settings.tracing.samplePercentage)) -}}
{{- end -}}
{{- with .Values.imagePullSecrets -}}
{{- $_ := set $tokenServer "imagePullSecrets" . -}}
{{- end -}}
{{- $spread := include "realmkeeper.topologySpread" (dict "constraints" $settings.topologySpreadConstraints "component" "token-server") -}}
{{- $_ := set $tokenServer "topologySpreadConstraints" (fromYamlArray $spread) -}}
{{- $tls := dict "managed" .Values.tls.managed -}}
{{- with include "realmkeeper.tlsSecret" . -}}
{{- $tls = dict "secretName" . -}}
{{- end -}}
{{- $kms := dict -}}
{{- if .Values.keyEncryption.kms.image -}}
{{- $kms = dict "imagePullPolicy" (.Values.keyEncryption.kms.imagePullPolicy | default .Values.image.pullPolicy) -}}
{{- range $key := list "image" "command" "args" "env" "envFrom" "volumes" "volumeMounts" "resources" "timeout" "decrypt" -}}
{{- with index $.Values.keyEncryption.kms $key -}}
{{- $_ := set $kms $key . -}}
{{- end -}}
{{- end -}}
{{- end -}}
apiVersion: config.realmkeeper.dev/v1beta1
kind: InstanceConfiguration
instanceDomain: {{ include "realmkeeper.domain" . | quote }}
externalPort: {{ int .Values.instance.externalPort }}
clusterDomain: {{ .Values.instance.clusterDomain | quote }}
{{- with .Values.operator.watchNamespaces }}
watchNamespaces: {{ toJson . }}
{{- end }}
{{- with .Values.commonLabels }}
commonLabels:
  {{- toYaml . | nindent 2 }}
{{- end }}
credentialsSecrets:
  {{- toYaml .Values.credentialsSecrets | nindent 2 }}
{{- with $kms }}
keyEncryption:
  kms:
    {{- toYaml . | nindent 4 }}
{{- end }}
security:
  {{- toYaml .Values.security | nindent 2 }}
logging:
  {{- toYaml .Values.logging | nindent 2 }}
tokenServer:
  {{- toYaml $tokenServer | nindent 2 }}
{{- if .Values.operator.trustedIssuers.allowLocalAddresses }}
trustedIssuers:
  allowLocalAddresses: true
{{- end }}
usage:
  {{- toYaml .Values.usage | nindent 2 }}
tls:
  {{- toYaml $tls | nindent 2 }}
{{- end }}

{{/* A NetworkPolicy egress rule for DNS. The DNS server can run in a Pod or on the node. */}}
{{- define "realmkeeper.dnsEgress" -}}
- ports:
    {{- range .Values.networkPolicy.dns.ports }}
    - {protocol: UDP, port: {{ int . }}}
    - {protocol: TCP, port: {{ int . }}}
    {{- end }}
{{- end }}
