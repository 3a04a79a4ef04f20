import{a as p,c as m,sa as o}from"./chunk-CW6UEOOR.js";m(p(o,null),document.getElementById("app"));
