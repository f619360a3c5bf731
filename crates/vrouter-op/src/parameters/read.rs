//! Reading parameters as what they mean: switches, ports, lists, subnets.

use std::net::IpAddr;

use ipnet::IpNet;
use tf_plan::not_ready::NotReady;

use super::{Name, Parameters};

impl Parameters {
    /// A switch, in the spellings that the image takes.
    ///
    /// # Errors
    /// When the value is none of them.
    pub fn flag(&self, name: Name) -> Result<Option<bool>, NotReady> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "enabled" => Ok(Some(true)),
            "false" | "no" | "off" | "0" | "disabled" => Ok(Some(false)),
            _ => Err(self.invalid(name, "use true or false")),
        }
    }

    /// A port.
    ///
    /// # Errors
    /// When the value is no port.
    pub fn port(&self, name: Name) -> Result<Option<u16>, NotReady> {
        match self.number(name, "use a port number from 1 to 65535")? {
            Some(0) => Err(self.invalid(name, "use a port number from 1 to 65535")),
            port => Ok(port),
        }
    }

    /// A number of 16 bits.
    ///
    /// # Errors
    /// When the value is none; `hint` says what to use.
    pub fn number(&self, name: Name, hint: &str) -> Result<Option<u16>, NotReady> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.trim().parse().map(Some).map_err(|_| self.invalid(name, hint))
    }

    /// A number of pages; 0 if the parameter is not set.
    ///
    /// # Errors
    /// When the value is no number.
    pub fn pages(&self, name: Name) -> Result<u32, NotReady> {
        let Some(value) = self.get(name) else { return Ok(0) };
        value.trim().parse().map_err(|_| self.invalid(name, "use a number of pages"))
    }

    /// Items between commas or blanks; none if the parameter is not set. `[]` is the image's word for no item.
    pub fn items(&self, name: Name) -> Vec<String> {
        let text = self.get(name).unwrap_or_default();
        text.split([',', ' ']).filter(|item| !item.is_empty() && *item != "[]").map(str::to_owned).collect()
    }

    /// Literal addresses: a malformed gateway can crash the agent (docs/upstream/vrouter.md#values-that-end-the-agent).
    ///
    /// # Errors
    /// When an item is no address.
    pub fn addresses(&self, name: Name) -> Result<Vec<IpAddr>, NotReady> {
        let addresses: Result<Vec<IpAddr>, _> = self.items(name).iter().map(|item| item.parse()).collect();
        let hint = "use IPv4 or IPv6 addresses separated by commas, for example 10.0.0.1,10.0.1.1";
        addresses.map_err(|_| self.invalid(name, hint))
    }

    /// Subnets.
    ///
    /// # Errors
    /// When an item is none.
    pub fn subnets(&self, name: Name) -> Result<Vec<IpNet>, NotReady> {
        let subnets: Result<Vec<IpNet>, _> = self.items(name).iter().map(|item| item.parse()).collect();
        let hint = "use subnets with their prefix lengths, for example 10.0.0.0/24 or fd00::/64";
        subnets.map_err(|_| self.invalid(name, hint))
    }

    /// One subnet.
    ///
    /// # Errors
    /// When the value is not exactly one.
    pub fn subnet(&self, name: Name) -> Result<Option<IpNet>, NotReady> {
        match self.subnets(name)?.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(*only)),
            _ => Err(self.invalid(name, "use one subnet")),
        }
    }

    /// The first of several parameters that is set.
    pub fn first(&self, names: &[Name]) -> Option<&str> {
        names.iter().find(|name| self.is_set(**name)).and_then(|name| self.get(*name))
    }
}
