// Asks the browser for a passkey when a form with the attribute data-passkey is sent, and sends the answer with it.
"use strict";

const REASONS = {
  InvalidStateError: "This device has a passkey of yours already.",
  SecurityError: "Passkeys need a host name, not a number: open the service by its name, or as http://localhost.",
};

const bytesOf = (text) =>
  Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (character) => character.charCodeAt(0));

const textOf = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

const withBytes = (credentials) => (credentials || []).map((credential) => ({ ...credential, id: bytesOf(credential.id) }));

async function create(options) {
  const credential = await navigator.credentials.create({
    publicKey: {
      ...options,
      challenge: bytesOf(options.challenge),
      user: { ...options.user, id: bytesOf(options.user.id) },
      excludeCredentials: withBytes(options.excludeCredentials),
    },
  });
  return {
    id: credential.id,
    rawId: textOf(credential.rawId),
    type: credential.type,
    response: {
      clientDataJSON: textOf(credential.response.clientDataJSON),
      attestationObject: textOf(credential.response.attestationObject),
    },
  };
}

async function get(options) {
  const credential = await navigator.credentials.get({
    publicKey: {
      ...options,
      challenge: bytesOf(options.challenge),
      allowCredentials: withBytes(options.allowCredentials),
    },
  });
  return {
    id: credential.id,
    rawId: textOf(credential.rawId),
    type: credential.type,
    response: {
      clientDataJSON: textOf(credential.response.clientDataJSON),
      authenticatorData: textOf(credential.response.authenticatorData),
      signature: textOf(credential.response.signature),
      userHandle: credential.response.userHandle ? textOf(credential.response.userHandle) : null,
    },
  };
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  const message = form.querySelector("[data-passkey-message]");
  const button = form.querySelector("button");
  if (!window.PublicKeyCredential) {
    message.textContent = "This browser or this connection cannot use passkeys: they need HTTPS or localhost.";
    message.hidden = false;
    continue;
  }
  button.disabled = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    message.hidden = true;
    button.disabled = true;
    try {
      const options = JSON.parse(form.dataset.options);
      const credential = form.dataset.passkey === "create" ? await create(options) : await get(options);
      form.querySelector("input[name=credential]").value = JSON.stringify(credential);
      form.submit();
    } catch (error) {
      message.textContent = REASONS[error.name] || "The browser gave no passkey. Try again, and follow what it asks.";
      message.hidden = false;
      button.disabled = false;
    }
  });
}
