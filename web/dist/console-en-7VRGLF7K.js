import{a as p,c as m,la as o}from"./chunk-UIDNANTB.js";m(p(o,null),document.getElementById("app"));
