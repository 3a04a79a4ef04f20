import{a as p,c as m,qa as o}from"./chunk-OUDSV4PK.js";m(p(o,null),document.getElementById("app"));
